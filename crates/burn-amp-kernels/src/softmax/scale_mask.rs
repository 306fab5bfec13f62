use burn_backend::{Backend, tensor::FloatTensor};

/// What the operand of a softmax goes through first: it is multiplied by a factor, and masked.
///
/// Attention needs both. As part of the softmax they cost no pass over the scores.
#[derive(Clone, Debug)]
pub struct ScaleMask<M> {
    /// The factor.
    pub scale: f32,
    /// The mask, after the factor.
    pub mask: Option<Mask<M>>,
}

/// Elements that get another value.
#[derive(Clone, Debug)]
pub struct Mask<M> {
    /// True for the elements that get the value. A dimension is 1 or that of the operand; as many dimensions.
    pub elements: M,
    /// The value, usually one to which a softmax gives no weight.
    pub value: f32,
}

impl<M> ScaleMask<M> {
    /// Neither a factor nor a mask.
    pub const fn none() -> Self {
        Self {
            scale: 1.0,
            mask: None,
        }
    }

    /// Takes the mask's elements out.
    pub(super) fn split(self) -> (ScaleMask<()>, Option<M>) {
        let Self { scale, mask } = self;
        let (value, elements) = mask.map(|mask| (mask.value, mask.elements)).unzip();
        let mask = value.map(|value| Mask {
            elements: (),
            value,
        });
        (ScaleMask { scale, mask }, elements)
    }

    /// What the gradient of the result goes through: the mask's elements get 0.
    pub(super) fn backward(self) -> Self {
        let mask = self.mask.map(|mask| Mask { value: 0.0, ..mask });
        Self { mask, ..self }
    }

    /// Applies both to a tensor with Burn's ops.
    pub(super) fn apply<B>(self, x: FloatTensor<B>) -> FloatTensor<B>
    where
        B: Backend<BoolTensorPrimitive = M>,
    {
        let x = match self.scale {
            1.0 => x,
            scale => B::float_mul_scalar(x, scale.into()),
        };
        match self.mask {
            Some(Mask { elements, value }) => B::float_mask_fill(x, elements, value.into()),
            None => x,
        }
    }
}

impl ScaleMask<()> {
    /// Puts the mask's elements back; the inverse of [`split`](ScaleMask::split).
    pub(super) fn with_mask<M>(&self, elements: Option<M>) -> ScaleMask<M> {
        let mask = self.mask.as_ref().zip(elements);
        ScaleMask {
            scale: self.scale,
            mask: mask.map(|(&Mask { value, .. }, elements)| Mask { elements, value }),
        }
    }
}
