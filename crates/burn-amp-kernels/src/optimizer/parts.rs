//! A [`ListStep`] as flat lists of tensors, and back: the form in which it passes through Fusion's stream.

use burn_backend::{
    Backend, DType, FloatDType, Shape, TensorMetadata,
    tensor::{FloatTensor, IntTensor},
};

use super::{ListStep, Listed, Master, Moment, MomentFormat, Rule, Stepped};

/// What a [`ListStep`] is besides its tensors.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    rule: Rule,
    lr: f64,
    scaled_by: bool,
    unless_overflowed: bool,
    clip: bool,
    parameters: Vec<Part>,
}

#[derive(Clone, Debug)]
struct Part {
    factor: f32,
    master: Option<MasterForm>,
    moments: Vec<MomentFormat>,
    key: u32,
    rounds_stochastically: bool,
    time: i32,
    low: Option<FloatDType>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum MasterForm {
    F32,
    Offset,
}

/// Float and int tensors.
pub(crate) struct Tensors<F, I> {
    pub floats: Vec<F>,
    pub ints: Vec<I>,
}

impl<F, I> Tensors<F, I> {
    fn none() -> Self {
        Self {
            floats: Vec::new(),
            ints: Vec::new(),
        }
    }

    fn push<B>(&mut self, master: Option<Master<B>>, moments: Vec<Moment<B>>)
    where
        B: Backend<FloatTensorPrimitive = F, IntTensorPrimitive = I>,
    {
        match master {
            None => {}
            Some(Master::F32(master)) => self.floats.push(master),
            Some(Master::Offset(offset)) => self.ints.push(offset),
        }
        for moment in moments {
            match moment {
                Moment::Wide(tensor) => self.floats.push(tensor),
                Moment::Bf16(words) | Moment::Bits8(words) => self.ints.push(words),
            }
        }
    }
}

impl Parts {
    /// Takes a step apart.
    pub(crate) fn of<B: Backend>(
        step: ListStep<B>,
    ) -> (Self, Tensors<FloatTensor<B>, IntTensor<B>>) {
        let ListStep {
            rule,
            lr,
            scaled_by,
            unless_overflowed,
            clip,
            parameters: listed,
        } = step;
        let mut parts = Self {
            rule,
            lr,
            scaled_by: scaled_by.is_some(),
            unless_overflowed: unless_overflowed.is_some(),
            clip: clip.is_some(),
            parameters: Vec::with_capacity(listed.len()),
        };
        let mut tensors = Tensors::none();
        let common = [scaled_by, unless_overflowed, clip];
        tensors.floats.extend(common.into_iter().flatten());
        for listed in listed {
            let Listed {
                parameter,
                gradient,
                factor,
                master,
                moments,
                key,
                rounds_stochastically,
                time,
                low,
            } = listed;
            parts.parameters.push(Part {
                factor,
                master: master.as_ref().map(|master| match master {
                    Master::F32(_) => MasterForm::F32,
                    Master::Offset(_) => MasterForm::Offset,
                }),
                moments: moments.iter().map(Moment::format).collect(),
                key,
                rounds_stochastically,
                time,
                low,
            });
            tensors.floats.extend([gradient, parameter]);
            tensors.push::<B>(master, moments);
        }
        (parts, tensors)
    }

    /// Puts a step together, with tensors of the same or of another backend.
    pub(crate) fn step<B: Backend>(
        &self,
        tensors: Tensors<FloatTensor<B>, IntTensor<B>>,
    ) -> ListStep<B> {
        let mut floats = tensors.floats.into_iter();
        let mut ints = tensors.ints.into_iter();
        let mut next = || {
            floats
                .next()
                .expect("a step has the tensors it was made of")
        };
        let scaled_by = self.scaled_by.then(&mut next);
        let unless_overflowed = self.unless_overflowed.then(&mut next);
        let clip = self.clip.then(&mut next);
        let listed = |part: &Part| Listed {
            gradient: next(),
            parameter: next(),
            factor: part.factor,
            master: part.master(&mut next, &mut ints),
            moments: part.moments(&mut next, &mut ints),
            key: part.key,
            rounds_stochastically: part.rounds_stochastically,
            time: part.time,
            low: part.low,
        };
        ListStep {
            rule: self.rule,
            lr: self.lr,
            scaled_by,
            unless_overflowed,
            clip,
            parameters: self.parameters.iter().map(listed).collect(),
        }
    }

    /// Describes the tensors of the result, from those of the step.
    pub(crate) fn results<F: TensorMetadata, I: TensorMetadata>(
        &self,
        tensors: &Tensors<F, I>,
    ) -> Tensors<(Shape, DType), (Shape, DType)> {
        let globals = [self.scaled_by, self.unless_overflowed, self.clip];
        let mut at = globals.into_iter().filter(|is_there| *is_there).count();
        let mut floats = Vec::new();
        for part in &self.parameters {
            let wide = part.moments.iter();
            let wide = wide.filter(|format| **format == MomentFormat::Wide).count();
            let own = 1 + usize::from(part.master == Some(MasterForm::F32)) + wide;
            let changed = &tensors.floats[at + 1..=at + own];
            floats.extend(
                changed
                    .iter()
                    .map(|tensor| (tensor.shape(), tensor.dtype())),
            );
            floats.extend(part.low.map(|low| (changed[0].shape(), low.into())));
            at += 1 + own;
        }
        let ints = tensors.ints.iter();
        Tensors {
            floats,
            ints: ints
                .map(|tensor| (tensor.shape(), tensor.dtype()))
                .collect(),
        }
    }

    /// Takes a result apart.
    pub(crate) fn flatten<B: Backend>(
        stepped: Vec<Stepped<B>>,
    ) -> Tensors<FloatTensor<B>, IntTensor<B>> {
        let mut tensors = Tensors::none();
        for stepped in stepped {
            let Stepped {
                parameter,
                master,
                moments,
                low,
            } = stepped;
            tensors.floats.push(parameter);
            tensors.push::<B>(master, moments);
            tensors.floats.extend(low);
        }
        tensors
    }

    /// Puts a result together.
    pub(crate) fn stepped<B: Backend>(
        &self,
        tensors: Tensors<FloatTensor<B>, IntTensor<B>>,
    ) -> Vec<Stepped<B>> {
        let mut floats = tensors.floats.into_iter();
        let mut ints = tensors.ints.into_iter();
        let mut next = || {
            floats
                .next()
                .expect("an op returns the tensors it announced")
        };
        let stepped = |part: &Part| Stepped {
            parameter: next(),
            master: part.master(&mut next, &mut ints),
            moments: part.moments(&mut next, &mut ints),
            low: part.low.map(|_| next()),
        };
        self.parameters.iter().map(stepped).collect()
    }
}

impl Part {
    fn master<B: Backend>(
        &self,
        float: &mut impl FnMut() -> FloatTensor<B>,
        ints: &mut impl Iterator<Item = IntTensor<B>>,
    ) -> Option<Master<B>> {
        self.master.map(|form| match form {
            MasterForm::F32 => Master::F32(float()),
            MasterForm::Offset => Master::Offset(ints.next().expect("as many offsets as forms")),
        })
    }

    fn moments<B: Backend>(
        &self,
        float: &mut impl FnMut() -> FloatTensor<B>,
        ints: &mut impl Iterator<Item = IntTensor<B>>,
    ) -> Vec<Moment<B>> {
        let formats = self.moments.iter();
        let moments = formats.map(|format| {
            let mut words = || ints.next().expect("as many tensors of words as formats");
            match format {
                MomentFormat::Wide => Moment::Wide(float()),
                MomentFormat::Bf16 => Moment::Bf16(words()),
                MomentFormat::Bits8 => Moment::Bits8(words()),
            }
        });
        moments.collect()
    }
}
