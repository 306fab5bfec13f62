//! A difference between two backends as a program of plain Burn, to be sent as a report.

use std::{borrow::Cow, collections::HashMap, fmt::Write as _};

use burn_amp_core::{
    Op, Precision,
    overflow::Locate,
    replay::{Argument, Beside, Compared, Step, TensorDifference, Use},
};
use burn_amp_kernels::names::{dtype_of, shape_of};
use burn_backend::TensorData;

use super::{
    call,
    compare::Side,
    run,
    unit::{Computed, Unit},
};
use crate::{
    cast::again::{Written, code_of},
    distributed::Trainable,
    policy::Context,
    precision,
};

/// The largest number of values that a program lists.
const MOST_VALUES: usize = 4096;

/// Writes a program that shows a difference: the calls of the unit on plain Burn, in the dtype in which they differ, with
/// values of a pattern, or else with those of the step. `None` if it does not show like that.
pub(super) fn of<S: Trainable, R: Trainable>(
    step: &Step,
    unit: &Unit,
    difference: &TensorDifference,
    subject: &Side<S>,
    reference: &Side<R>,
) -> Option<String> {
    let low = difference.dtype.is_low().then_some(difference.dtype);
    let dtypes = low.into_iter().chain([Precision::F32]);
    for (dtype, pattern) in dtypes.flat_map(|dtype| [(dtype, true), (dtype, false)]) {
        let unit = in_dtype(unit, dtype, pattern);
        let shows = shows(step, &unit, difference, dtype, subject, reference);
        if shows.unwrap_or(false) {
            let program = Program {
                step,
                unit: &unit,
                pattern,
                names: HashMap::new(),
                body: String::new(),
            };
            return program.write(difference, [subject.path, reference.path]);
        }
    }
    None
}

/// The unit with all tensors in a dtype, and with other values if `pattern` asks for them.
fn in_dtype<'a>(unit: &Unit<'a>, dtype: Precision, pattern: bool) -> Unit<'a> {
    let mut unit = unit.clone();
    let in_dtype = |data: &TensorData, changes: bool| {
        let data = match pattern && changes {
            true => wave(shape_of(data).as_slice()),
            false => data.clone(),
        };
        Cow::Owned(data.convert_dtype(precision::to_burn(dtype)))
    };
    for input in unit.inputs.values_mut() {
        input.values = in_dtype(&input.values, input.has_roundings());
    }
    unit.received = unit.received.map(|data| in_dtype(&data, true));
    unit
}

/// Values between -0.5 and 0.5; the program has the same function.
fn wave(shape: &[usize]) -> TensorData {
    let count: usize = shape.iter().product();
    let values = (0..count).map(|at| (at * 37 % 101) as f64 / 101.0 - 0.5);
    TensorData::new(values.collect(), shape.to_vec())
}

/// Whether the backends differ on the unit where nothing is cast.
fn shows<S: Trainable, R: Trainable>(
    step: &Step,
    unit: &Unit,
    difference: &TensorDifference,
    dtype: Precision,
    subject: &Side<S>,
    reference: &Side<R>,
) -> Option<bool> {
    let config = |all_in| run::config(step, Some(all_in), Locate::Off);
    let plain = Context::<S>::apart(config(dtype).ok()?, subject.device).ok()?;
    let found = unit
        .run(step, subject.device, plain, Some(dtype), None)
        .ok()?;
    let plain = Context::<R>::apart(config(dtype).ok()?, reference.device).ok()?;
    let expected = unit
        .run(step, reference.device, plain, Some(dtype), None)
        .ok()?;
    let all_in = Precision::F64;
    let plain = Context::<R>::apart(config(all_in).ok()?, reference.device).ok()?;
    let exact = unit
        .run(step, reference.device, plain, Some(all_in), None)
        .ok()?;
    let values = |computed: &Computed| -> Option<Vec<f64>> {
        Some(computed.of(difference.what)?.iter::<f64>().collect())
    };
    let (found, expected, exact) = (values(&found)?, values(&expected)?, values(&exact)?);
    let beside = Beside {
        op: &step.calls[unit.at].op,
        what: difference.what,
        calls: unit.calls.len(),
        found: &found,
        expected: &expected,
        exact: &exact,
        spread: Vec::new(),
        stored: dtype,
        low: None,
        is_wider: false,
        tolerance: 1.0,
    };
    let (far, near, _) = beside.differ()?;
    // What a report is about is no matter of a rounding.
    Some(far.worst > 8.0 * near.worst.max(1.0))
}

/// A program that is being written.
struct Program<'a> {
    step: &'a Step,
    unit: &'a Unit<'a>,
    pattern: bool,
    /// The variables of the tensors.
    names: HashMap<u64, String>,
    body: String,
}

impl Program<'_> {
    fn write(
        mut self,
        difference: &TensorDifference,
        [subject, reference]: [&str; 2],
    ) -> Option<String> {
        let unit = self.unit;
        let is_backward = matches!(difference.what, Compared::Gradient(_));
        for (id, input) in &unit.inputs {
            let values = self.values(&input.values, input.has_roundings())?;
            let name = self.name(*id);
            let made = format!("B::float_from_data({values}, device)");
            let made = match is_backward && input.is_tracked() {
                true => format!("B::float_set_require_grad({made}, true)"),
                false => made,
            };
            self.line(format_args!("let {name} = {made};"));
        }
        for at in &unit.calls {
            if *at <= unit.at || is_backward {
                self.call(*at)?;
            }
        }
        let result = self.step.calls[unit.at].results.first()?.id;
        match difference.what {
            Compared::Result(0) => {
                let name = self.names.get(&result)?.clone();
                self.line(format_args!("values::<B>({name})"));
            }
            Compared::Result(_) => return None,
            Compared::Gradient(id) => {
                let root = self.step.calls[unit.root].results.first()?.id;
                let (root, of) = (self.names.get(&root)?.clone(), self.names.get(&id)?.clone());
                let received = self.values(unit.received.as_ref()?, true)?;
                self.line(format_args!(
                    "let gradient = B::float_from_data({received}, device);"
                ));
                self.line(format_args!(
                    "let grads = B::backward(B::float_mul({root}, gradient));"
                ));
                self.line(format_args!(
                    "values::<B::InnerBackend>(B::grad(&{of}, &grads).expect(\"a gradient\"))"
                ));
            }
        }
        let (bound, autodiff) = match is_backward {
            true => ("AutodiffBackend", "use burn::backend::Autodiff;\n"),
            false => ("Backend", ""),
        };
        let wrapped = |path: &str| match is_backward {
            true => format!("Autodiff<{path}>"),
            false => path.to_owned(),
        };
        let wave = match self.body.contains("wave(") {
            true => {
                "\n/// Values between -0.5 and 0.5.\n\
                 fn wave(count: usize) -> Vec<f64> {\n    \
                     (0..count).map(|at| (at * 37 % 101) as f64 / 101.0 - 0.5).collect()\n\
                 }\n"
            }
            false => "",
        };
        let Self { body, step, .. } = self;
        let op = &step.calls[unit.at].op;
        let (subject, reference) = (wrapped(subject), wrapped(reference));
        let tensor = match difference.what {
            Compared::Result(_) => "result",
            Compared::Gradient(_) => "gradient",
        };
        Some(format!(
            "//! The {tensor} of `{op}` on `{subject}` is not that on `{reference}`.\n\
             //!\n\
             //! Depends on `burn` and `burn-backend`, 0.21.0, with the features of both backends.\n\
             \n\
             {autodiff}\
             #[allow(unused_imports, reason = \"not every op has options\")]\n\
             use burn_backend::{{\n    \
                 AutodiffBackend, Backend, DType, FloatDType, Scalar, Shape, Slice, TensorData,\n    \
                 get_device_settings, ops::*, read_sync,\n    \
                 tensor::{{Device, FloatTensor, IndexingUpdateOp}},\n\
             }};\n\
             \n\
             fn run<B: {bound}>(device: &Device<B>) -> Vec<f64> {{\n{body}}}\n\
             {wave}\n\
             fn values<B: Backend>(tensor: FloatTensor<B>) -> Vec<f64> {{\n    \
                 let data = read_sync(B::float_into_data(tensor)).expect(\"values\");\n    \
                 data.iter::<f64>().collect()\n\
             }}\n\
             \n\
             /// The elements that differ, with their values on both backends.\n\
             pub fn different() -> Vec<(usize, f64, f64)> {{\n    \
                 let found = run::<{subject}>(&Default::default());\n    \
                 let expected = run::<{reference}>(&Default::default());\n    \
                 let pairs = found.into_iter().zip(expected).enumerate();\n    \
                 pairs.map(|(at, (x, y))| (at, x, y)).filter(|(_, x, y)| x != y).collect()\n\
             }}\n\
             \n\
             pub fn main() {{\n    \
                 for (at, found, expected) in different().into_iter().take(10) {{\n        \
                     println!(\"element {{at}}: {{found}}, not {{expected}}\");\n    \
                 }}\n\
             }}\n"
        ))
    }

    fn line(&mut self, line: std::fmt::Arguments) {
        writeln!(self.body, "    {line}").expect("a string takes any text");
    }

    /// The variable of a tensor.
    fn name(&mut self, id: u64) -> String {
        let next = self.names.len();
        self.names
            .entry(id)
            .or_insert_with(|| format!("x{next}"))
            .clone()
    }

    /// A float tensor's values.
    fn values(&self, data: &TensorData, changes: bool) -> Option<String> {
        let shape = shape_of(data).as_slice().to_vec();
        let count = data.num_elements();
        let values = match self.pattern && changes {
            true => format!("wave({count})"),
            false => listed(data.iter::<f64>(), |x| format!("{x:?}"), count)?,
        };
        let dtype = dtype_of(data);
        Some(format!(
            "TensorData::new({values}, {shape:?}).convert_dtype(DType::{dtype:?})"
        ))
    }

    /// A call, with the variables of its results.
    fn call(&mut self, at: usize) -> Option<()> {
        let step = self.step;
        let call = &step.calls[at];
        let op: Op = call.op.parse().ok()?;
        let mut given = Vec::new();
        for argument in &call.arguments {
            given.push(match argument {
                Argument::Float(operand) => Written::Tensor(self.used(operand)?),
                Argument::Floats(operands) => {
                    let operands = operands.iter().map(|operand| self.used(operand));
                    let operands: Vec<_> = operands.collect::<Option<_>>()?;
                    Written::Tensor(format!("vec![{}]", operands.join(", ")))
                }
                Argument::Data(place) => {
                    Written::Tensor(data_of(&call::to_burn(step.data.get(*place)?))?)
                }
                Argument::Absent => Written::Absent,
                Argument::Plain(json) => Written::Plain(json.clone()),
            });
        }
        let arguments = code_of(op)?(given)?.join(", ");
        let ids: Vec<_> = call.results.iter().map(|result| result.id).collect();
        let names: Vec<_> = ids.iter().map(|id| self.name(*id)).collect();
        let result = op.shape().rsplit("->").next()?.replace(' ', "");
        let (left, right) = match &*result {
            "F" | "Wide" => (names[0].clone(), ""),
            "(F,F)" => (format!("({}, {})", names[0], names.get(1)?), ""),
            "(F,I)" => (format!("({}, _)", names[0]), ""),
            other if other.contains("WithIndices") => (names[0].clone(), ".output"),
            _ => return None,
        };
        self.line(format_args!("let {left} = B::{op}({arguments}){right};"));
        Some(())
    }

    fn used(&self, operand: &Use) -> Option<String> {
        Some(format!("{}.clone()", self.names.get(&operand.id)?))
    }
}

/// The values of an integer or bool tensor.
fn data_of(data: &TensorData) -> Option<String> {
    let shape = shape_of(data).as_slice().to_vec();
    let count = data.num_elements();
    Some(match dtype_of(data) {
        burn_backend::DType::Bool(_) => {
            let values = listed(data.iter::<bool>(), |x| x.to_string(), count)?;
            format!(
                "B::bool_from_data(TensorData::new({values}, {shape:?}).convert_dtype(get_device_settings::<B>(device).bool_dtype.into()), device)"
            )
        }
        _ => {
            let values = listed(data.iter::<i64>(), |x| format!("{x}i64"), count)?;
            format!(
                "B::int_from_data(TensorData::new({values}, {shape:?}).convert_dtype(get_device_settings::<B>(device).int_dtype.into()), device)"
            )
        }
    })
}

/// A list of values, if it is short enough for a program.
fn listed<T>(
    values: impl Iterator<Item = T>,
    write: impl Fn(T) -> String,
    count: usize,
) -> Option<String> {
    let values: Vec<_> = values.map(write).collect();
    match values.first() {
        Some(first) if count > 4 && values.iter().all(|value| value == first) => {
            Some(format!("vec![{first}; {count}]"))
        }
        _ => (count <= MOST_VALUES).then(|| format!("vec![{}]", values.join(", "))),
    }
}
