//! Unscaled tensors, bit for bit.

use burn_amp_kernels::unscale;

use super::prelude::*;

/// Three tensors of one shape, and the flags.
struct Unscaled(f32);

impl Unscaled {
    /// The product in F32.
    fn on_number(&self, x: f64, dtype: DType) -> f64 {
        match dtype {
            DType::F64 => x * f64::from(self.0),
            _ => f64::from(x as f32 * self.0),
        }
    }
}

impl OnLines for Unscaled {
    const OPERANDS: usize = 3;
    const SHAPES: &[&[usize]] = &[&[1, 1], &[2, 3], &[8, 64], &[33, 31], &[64, 4096]];

    fn all() -> Vec<DType> {
        super::dtypes()
    }

    fn run<B: Device>(&self, operands: &[Float], _dim: usize) -> Vec<Float> {
        let mut unscaled = unscale::unscale::<B>(operands.to_vec(), self.0);
        assert_eq!(read(&unscaled.pop().unwrap()), vec![0.0; operands.len()]);
        unscaled
    }

    fn dtypes(&self, operands: &[DType]) -> Vec<DType> {
        operands.iter().map(|dtype| wide(*dtype)).collect()
    }

    fn host(&self, operands: &[Float], _dim: usize) -> Host<'_> {
        let dtypes: Vec<_> = operands.iter().map(TensorMetadata::dtype).collect();
        Box::new(move |line| {
            let near = |(of, dtype): (&Vec<f64>, &DType)| {
                of.iter()
                    .map(|x| (self.on_number(*x, *dtype), EXACT))
                    .collect()
            };
            line.of.iter().zip(&dtypes).map(near).collect()
        })
    }
}

#[test]
fn every_element_is_the_product_in_f32() {
    for factor in [1.0, 1.0 / 65536.0, 0.3] {
        law::holds(&Unscaled(factor));
        for dtype in Unscaled::all() {
            law::sizes_hold::<References, _>(&Unscaled(factor), dtype);
        }
    }
}

#[test]
fn the_tensors_of_a_list_may_differ_in_shape() {
    let op = Unscaled(0.3);
    for dtype in Unscaled::all() {
        let tensors: Vec<_> = Unscaled::SHAPES
            .iter()
            .map(|shape| noisy(shape, 1, dtype))
            .collect();
        let unscaled = unscale::unscale::<Plain>(tensors.clone(), 0.3);
        for (before, after) in tensors.iter().zip(unscaled) {
            assert_eq!(
                (after.dtype(), after.shape()),
                (wide(dtype), before.shape())
            );
            let expected: Vec<_> = read(before)
                .into_iter()
                .map(|x| op.on_number(x, dtype))
                .collect();
            assert_near("a list", &after, &expected, |_| EXACT);
        }
    }
}
