//! A call, or *case*, for every op that has a cast class. It is generic over the backend, so that the same code runs on
//! the plain backend, under Amp, and in F64.
//!
//! There is a file for each of Burn's op traits; `FloatTensorOps` is split into `arithmetic` and `movement`, and the
//! convolutions of `ModuleOps` are in `conv`.

mod activation;
mod arithmetic;
#[cfg(burn_0_22)]
mod composed;
mod conv;
mod module;
mod movement;
mod operand;
mod qtensor;

use crate::prelude::*;

pub use operand::Operand;

/// A call of an op: the float operands, and the function that computes the results from them.
pub struct Case<B: Backend> {
    pub operands: Vec<Operand>,
    run: Box<Run<B>>,
}

type Run<B> = dyn Fn(Vec<FloatTensor<B>>, &Setting<B>) -> Vec<Output<B>>;

/// A result of an op.
pub enum Output<B: Backend> {
    Float(FloatTensor<B>),
    Int(IntTensor<B>),
    Bool(BoolTensor<B>),
    Quantized(QuantizedTensor<B>),
}

/// The device and the scalar with which a case runs.
pub struct Setting<B: Backend> {
    pub device: Device<B>,
    /// Replaces every scalar operand of the case.
    pub scalar: Option<f64>,
}

impl<B: Backend> Default for Setting<B> {
    fn default() -> Self {
        Self {
            device: Default::default(),
            scalar: None,
        }
    }
}

impl<B: Backend> Setting<B> {
    fn scalar(&self, usual: f64) -> Scalar {
        self.scalar.unwrap_or(usual).into()
    }

    fn int_dtype(&self) -> IntDType {
        get_device_settings::<B>(&self.device).int_dtype
    }

    fn bool_dtype(&self) -> BoolDType {
        get_device_settings::<B>(&self.device).bool_dtype
    }

    fn ints<const D: usize>(&self, shape: [usize; D], values: &[i64]) -> IntTensor<B> {
        let data = TensorData::new(values.to_vec(), shape);
        B::int_from_data(data.convert_dtype(self.int_dtype().into()), &self.device)
    }

    /// A mask in which every third element is true.
    fn mask<const D: usize>(&self, shape: [usize; D]) -> BoolTensor<B> {
        let values: Vec<bool> = (0..shape.iter().product()).map(|i| i % 3 == 1).collect();
        let data = TensorData::new(values, shape);
        B::bool_from_data(data.convert_dtype(self.bool_dtype().into()), &self.device)
    }
}

impl<B: Backend> Case<B> {
    /// The case of `op`, or `None` for an op without a class.
    pub fn of(op: Op) -> Option<Self> {
        arithmetic::case(op)
            .or_else(|| movement::case(op))
            .or_else(|| module::case(op))
            .or_else(|| conv::case(op))
            .or_else(|| activation::case(op))
            .or_else(|| qtensor::case(op))
    }

    /// The cases of ops that are no rows of the table, with their names.
    #[cfg(burn_0_22)]
    pub fn composed() -> Vec<(&'static str, Self)> {
        composed::cases()
    }

    /// Calls the op.
    pub fn run(&self, operands: Vec<FloatTensor<B>>, setting: &Setting<B>) -> Vec<Output<B>> {
        assert_eq!(operands.len(), self.operands.len());
        (self.run)(operands, setting)
    }

    fn new<const N: usize>(
        operands: [Operand; N],
        run: impl Fn([FloatTensor<B>; N], &Setting<B>) -> Vec<Output<B>> + 'static,
    ) -> Self {
        Self {
            operands: operands.into(),
            run: Box::new(move |operands, setting| {
                let Ok(operands) = operands.try_into() else {
                    panic!("as many tensors as operands");
                };
                run(operands, setting)
            }),
        }
    }

    fn float<const N: usize>(
        operands: [Operand; N],
        run: impl Fn([FloatTensor<B>; N], &Setting<B>) -> FloatTensor<B> + 'static,
    ) -> Self {
        Self::new(operands, move |xs, to| vec![Output::Float(run(xs, to))])
    }

    fn int<const N: usize>(
        operands: [Operand; N],
        run: impl Fn([FloatTensor<B>; N], &Setting<B>) -> IntTensor<B> + 'static,
    ) -> Self {
        Self::new(operands, move |xs, to| vec![Output::Int(run(xs, to))])
    }

    fn bool<const N: usize>(
        operands: [Operand; N],
        run: impl Fn([FloatTensor<B>; N], &Setting<B>) -> BoolTensor<B> + 'static,
    ) -> Self {
        Self::new(operands, move |xs, to| vec![Output::Bool(run(xs, to))])
    }

    fn unary(x: Operand, op: fn(FloatTensor<B>) -> FloatTensor<B>) -> Self {
        Self::float([x], move |[x], _| op(x))
    }

    fn binary(
        [x, y]: [Operand; 2],
        op: fn(FloatTensor<B>, FloatTensor<B>) -> FloatTensor<B>,
    ) -> Self {
        Self::float([x, y], move |[x, y], _| op(x, y))
    }

    fn with_scalar(
        x: Operand,
        scalar: f64,
        op: fn(FloatTensor<B>, Scalar) -> FloatTensor<B>,
    ) -> Self {
        Self::float([x], move |[x], to| op(x, to.scalar(scalar)))
    }

    /// A case of an op along dimension 1.
    fn along(x: Operand, op: fn(FloatTensor<B>, usize) -> FloatTensor<B>) -> Self {
        Self::float([x], move |[x], _| op(x, 1))
    }

    fn compare(op: fn(FloatTensor<B>, FloatTensor<B>, BoolDType) -> BoolTensor<B>) -> Self {
        let operands = [Operand::whole(0, [3, 5]), Operand::whole(1, [3, 5])];
        Self::bool(operands, move |[x, y], to| op(x, y, to.bool_dtype()))
    }

    fn compare_elem(op: fn(FloatTensor<B>, Scalar, BoolDType) -> BoolTensor<B>) -> Self {
        Self::bool([Operand::whole(0, [3, 5])], move |[x], to| {
            op(x, to.scalar(-1.0), to.bool_dtype())
        })
    }
}
