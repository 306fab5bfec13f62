//! Random operands of a chain, and what the host makes of them in F64.

use super::*;

/// The operands of a case, as they are stored.
pub(super) struct Operands {
    pub(super) x: FloatTensor<Plain>,
    pub(super) affine: Affine<FloatTensor<Plain>>,
    /// The values of `x` and of the factors.
    pub(super) values: Vec<f64>,
    pub(super) factors: [Option<(Vec<f64>, &'static [usize])>; 4],
    pub(super) grid: &'static [usize],
}

impl Operands {
    pub(super) fn new(case: &Case, dtype: DType, divides: bool, end: End) -> Self {
        let x = tensor(&noise(case.shape.iter().product(), 0), case.shape, dtype);
        let mut seed = 0;
        let [has_before, ..] = case.factors.map(|shape| !shape.is_empty());
        let factors = case.factors.map(|shape| {
            (!shape.is_empty()).then(|| {
                seed += 1;
                let mut values = noise(shape.iter().product(), seed);
                if divides && seed == 1 + u32::from(has_before) {
                    // Divisors of at least 1/2, so that quotients stay below 8.
                    values
                        .iter_mut()
                        .for_each(|x| *x = x.abs().max(0.5).copysign(*x));
                }
                (tensor(&values, shape, DType::F32), shape)
            })
        });
        let tensors = factors.clone().map(|factor| Some(factor?.0));
        Self {
            values: read(&x),
            affine: Affine {
                divides,
                end,
                ..Affine::<()>::identity(case.grid.to_vec().into()).with_factors(tensors)
            },
            factors: factors.map(|factor| factor.map(|(factor, shape)| (read(&factor), shape))),
            grid: case.grid,
            x,
        }
    }

    pub(super) fn factor(&self, index: usize, at: usize, absent: f64) -> f64 {
        self.factors[index]
            .as_ref()
            .map_or(absent, |(values, shape)| {
                values[place(at, self.grid, shape)]
            })
    }

    pub(super) fn centered(&self, at: usize) -> f64 {
        self.values[at] + self.factor(0, at, 0.0)
    }

    /// What the sum is multiplied by: `scale`, or its reciprocal.
    pub(super) fn scale(&self, at: usize) -> f64 {
        let scale = self.factor(1, at, 1.0);
        if self.affine.divides {
            scale.recip()
        } else {
            scale
        }
    }

    /// The result of the chain without its end.
    pub(super) fn chain(&self, at: usize) -> f64 {
        let product = self.centered(at) * self.scale(at) * self.factor(2, at, 1.0);
        product + self.factor(3, at, 0.0)
    }

    /// The function that ends the chain.
    pub(super) fn ended(&self, y: f64) -> f64 {
        match self.affine.end {
            End::Identity => y,
            End::Relu => y.max(0.0),
            End::LeakyRelu(slope) => y.max(0.0) + y.min(0.0) * f64::from(slope.value()),
            End::Clamp(bounds) => y.clamp(bounds.min().into(), bounds.max().into()),
            End::Sigmoid => 1.0 / (1.0 + (-y).exp()),
            End::Silu => y / (1.0 + (-y).exp()),
        }
    }

    /// The gradient of the chain without its end. An element near a step may fall on either side in F32.
    pub(super) fn passed(&self, at: usize, grad: f64) -> f64 {
        let y = self.chain(at);
        let sigmoid = 1.0 / (1.0 + (-y).exp());
        let one_if = |passes| f64::from(u8::from(passes));
        grad * match self.affine.end {
            End::Identity => 1.0,
            End::Relu => one_if(y > 0.0),
            End::LeakyRelu(slope) => one_if(y >= 0.0) + one_if(y < 0.0) * f64::from(slope.value()),
            End::Clamp(bounds) => one_if(y >= bounds.min().into() && y <= bounds.max().into()),
            End::Sigmoid => sigmoid * (1.0 - sigmoid),
            End::Silu => sigmoid + y * sigmoid * (1.0 - sigmoid),
        }
    }

    pub(super) fn sums(&self, kept: &[usize], summand: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut sums = vec![0.0; kept.iter().product()];
        for at in 0..self.values.len() {
            sums[place(at, self.grid, kept)] += summand(at);
        }
        sums
    }
}
