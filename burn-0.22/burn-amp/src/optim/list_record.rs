//! The state of a parameter in the record of a `ModuleOptimizer`: named tensors and numbers.
//!
//! Moments in F32 have the names of Burn's own optimizers, so either reads the record of the other. Others say their format in
//! their name.

use burn::{
    optim::{StateSink, StateSource, join_path},
    tensor::TensorData,
};
use burn_amp_decorator::optimizer::ListItem;
use burn_amp_kernels::optimizer::{Master, Moment};

/// The place of Burn's moments below that of a parameter.
const MOMENTS: &str = "momentum";
/// The number of steps, which Burn has for Adam alone.
const TIME: &str = "time";
/// The velocity of SGD, its only moment.
const VELOCITY: &str = "velocity";
/// The moments of Adam.
const ADAM: [&str; 3] = ["moment_1", "moment_2", "max_moment_2"];
/// The ends of names of moments in other formats.
const BF16: &str = "_bf16";
const BITS8: &str = "_8bit";
/// The F32 master, and the offset of a split one, at the place of the parameter.
const MASTER: &str = "master";
const OFFSET: &str = "offset";
/// The place of the sizes of the shape, which Burn's records do not have.
const SHAPE: &str = "shape";

/// Writes a state below the place `prefix`.
pub(super) fn write(item: ListItem, prefix: &str, out: &mut StateSink) {
    let ListItem {
        time,
        master,
        moments,
        shape,
    } = item;
    let place = join_path(prefix, MOMENTS);
    out.push_scalar(&place, TIME, time.into());
    match master {
        Master::Parameter => {}
        Master::F32(data) => out.push_tensor(prefix, MASTER, data),
        Master::Offset(data) => out.push_tensor(prefix, OFFSET, data),
    }
    for (name, moment) in names(moments.len()).iter().zip(moments) {
        match moment {
            Moment::Wide(data) => out.push_tensor(&place, name, data),
            Moment::Bf16(data) => out.push_tensor(&place, &format!("{name}{BF16}"), data),
            Moment::Bits8(data) => out.push_tensor(&place, &format!("{name}{BITS8}"), data),
        }
    }
    for (at, size) in shape.into_iter().enumerate() {
        out.push_scalar(&join_path(prefix, SHAPE), &at.to_string(), size.into());
    }
}

/// Reads the state of a parameter of some rank; `None` if there is none, or one that does not fit.
pub(super) fn read(prefix: &str, rank: usize, source: &mut StateSource) -> Option<ListItem> {
    let place = join_path(prefix, MOMENTS);
    let velocity = moment(&place, VELOCITY, source);
    let moments: Vec<_> = match velocity {
        Some(velocity) => vec![velocity],
        None => ADAM
            .iter()
            .map_while(|name| moment(&place, name, source))
            .collect(),
    };
    let master = match source.take_tensor(prefix, MASTER) {
        Some(data) => Master::F32(data),
        None => match source.take_tensor(prefix, OFFSET) {
            Some(data) => Master::Offset(data),
            None => Master::Parameter,
        },
    };
    if moments.is_empty() && matches!(master, Master::Parameter) {
        return None;
    }
    // Burn's SGD does not count: it has made a step, since it has a velocity.
    let time = source.take_scalar(&place, TIME);
    let time = time.map_or(Some(1), |time| usize::try_from(time).ok())?;
    let sizes = (0..rank).map(|at| {
        let size = source.take_scalar(&join_path(prefix, SHAPE), &at.to_string())?;
        usize::try_from(size).ok()
    });
    let sizes: Option<Vec<usize>> = sizes.collect();
    let shape = match (sizes, moments.first()) {
        (Some(sizes), _) => sizes,
        (None, Some(Moment::Wide(data))) => data.shape().iter().copied().collect(),
        (None, _) => return None,
    };
    let item = ListItem {
        time,
        master,
        moments,
        shape,
    };
    item.check().ok()?;
    Some(item)
}

/// The names of so many moments.
fn names(moments: usize) -> &'static [&'static str] {
    match moments {
        1 => &[VELOCITY],
        _ => &ADAM,
    }
}

fn moment(place: &str, name: &str, source: &mut StateSource) -> Option<Moment<TensorData>> {
    let mut tensor = |name: &str| source.take_tensor(place, name);
    if let Some(data) = tensor(name) {
        return Some(Moment::Wide(data));
    }
    if let Some(data) = tensor(&format!("{name}{BF16}")) {
        return Some(Moment::Bf16(data));
    }
    tensor(&format!("{name}{BITS8}")).map(Moment::Bits8)
}
