//! Tensors rounded to a format of eight bits or fewer, in blocks that have scales.
//!
//! [`forward`] computes what [`Quantizer::quantize`] computes on the host: numbers of the format times their scales, in F32, so that
//! an op can read what it would read of a tensor in that format. Where the quotients of a device are not rounded correctly, one that
//! is within a unit in the last place of a tie may become the other neighbour. Each unit of the kernel rounds one block; the largest
//! value of a whole tensor is found first, by Burn's own ops.

#[cfg(feature = "cubecl")]
mod kernel;

use burn_amp_core::formats::{Blocks, Lines, Quantizer, Scaling};
use burn_backend::TensorData;

use crate::{names::shape_of, prelude::*};

/// Rounds a tensor to a format. Its blocks lie along the middle one of the `lines`, of which the elements are those of the tensor.
/// The result is F32.
pub fn forward<B: AmpBackend>(
    x: FloatTensor<B>,
    quantizer: Quantizer,
    lines: Lines,
) -> FloatTensor<B> {
    let rounded = Rounded { quantizer, lines };
    let most = match rounded.reads_most() && x.shape().num_elements() > 0 {
        true => Some(widen::<B>(B::float_max_abs(x.clone()))),
        false => None,
    };
    B::run(rounded, ([x], most).into()).one()
}

#[derive(Clone, Copy, Debug)]
struct Rounded {
    quantizer: Quantizer,
    lines: Lines,
}

impl Rounded {
    /// Whether scales depend on the largest absolute value of the tensor.
    fn reads_most(&self) -> bool {
        match (self.quantizer.scaling, self.quantizer.blocks) {
            (Scaling::None, _) => false,
            (Scaling::E4M3, _) | (_, Blocks::Tensor) => true,
            (_, Blocks::Row | Blocks::Along(_) | Blocks::Square(_)) => false,
        }
    }
}

impl Kernel for Rounded {
    const NAME: &'static str = "burn_amp::rounded";

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        let (shape, _) = &operands.floats[0];
        [(shape.clone(), DType::F32)].into()
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let x = operands.floats.into_iter().next().expect("an operand");
        let device = device_of::<B>(&x);
        let data = B::read_later(x).wait().expect("the values of a tensor");
        let values: Vec<f64> = data.iter().collect();
        let quantized = self.quantizer.quantize(&values, self.lines);
        let data = TensorData::new(quantized.values, shape_of(&data).clone());
        [B::float_from_data(data.convert::<f32>(), &device)].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        if operands.floats[0].dtype == DType::F64 {
            return Err(operands);
        }
        let (x, most) = match operands.floats.len() {
            1 => (operands.one(), None),
            _ => {
                let [x, most] = operands.exactly();
                (x, Some(most))
            }
        };
        Ok([kernel::rounded(x, most, self.quantizer, self.lines)].into())
    }
}
