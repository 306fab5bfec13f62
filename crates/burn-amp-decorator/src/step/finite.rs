//! The check of the gradients: one flag for each leaf (a parameter of the model), and one read for all flags of a
//! device.

use burn_amp_kernels::{self as kernels, AmpBackend};
use burn_autodiff::grads::Gradients;
use burn_backend::{Backend, read_sync, tensor::FloatTensor};

use crate::{
    graph::LeafGradient,
    loss_scale::Overflow,
    policy::{ConfigSource, Context},
    warn::See,
};

/// Returns the gradients of all parameters that a backward pass reached, by device.
pub(super) fn leaf_gradients<B: Backend, P: ConfigSource>(
    grads: &Gradients,
) -> Vec<Vec<LeafGradient<B>>> {
    Context::<B>::on_all_devices::<P>()
        .into_iter()
        .map(|(_, context)| context.leaves.gradients(grads))
        .collect()
}

/// Describes each gradient for a report, in order.
pub(super) fn names<B: Backend>(by_device: &[Vec<LeafGradient<B>>]) -> Vec<Overflow> {
    let gradients = by_device.iter().flatten().enumerate();
    gradients
        .map(|(index, leaf)| Overflow {
            index,
            name: leaf.name.clone(),
            shape: leaf.shape.clone(),
            dtype: leaf.dtype(),
        })
        .collect()
}

/// Returns the gradients that contain inf or NaN. Incurs one device-to-host read for each device that has gradients.
///
/// Also unscales the gradients of leaves that are stored in half precision.
///
/// # Panics
///
/// Panics if a device cannot deliver its flags.
pub(super) fn overflowed<B: AmpBackend>(
    by_device: &[Vec<LeafGradient<B>>],
    scale: f32,
    grads: &mut Gradients,
) -> Vec<Overflow> {
    let names = names(by_device);
    let mut first = 0;
    let mut overflowed = Vec::new();
    for leaves in by_device {
        if let Some((order, flags)) = flags(leaves, scale, grads) {
            let flags = read_sync(B::float_into_data(flags)).unwrap_or_else(|error| {
                panic!(
                    "cannot read from the device whether gradients overflowed: {error} {}",
                    See("the-device-fails")
                )
            });
            let found = order.into_iter().zip(flags.iter::<f32>());
            overflowed.extend(
                found
                    .filter(|(_, flag)| *flag != 0.0)
                    .map(|(at, _)| names[first + at].clone()),
            );
        }
        first += leaves.len();
    }
    overflowed.sort_by_key(|overflow| overflow.index);
    overflowed
}

/// Returns the position of each gradient of one device, and in the same order a flag that is 1 if it is not finite.
///
/// Gradients of leaves in half precision have to be rewritten in F32 anyway, unless the leaf was used several times, so
/// one pass checks and unscales them.
fn flags<B: AmpBackend>(
    leaves: &[LeafGradient<B>],
    scale: f32,
    grads: &mut Gradients,
) -> Option<(Vec<usize>, FloatTensor<B>)> {
    let (low, wide): (Vec<_>, Vec<_>) = (0..leaves.len()).partition(|at| leaves[*at].is_of_low);
    let gradients = |order: &[usize]| -> Vec<_> {
        order
            .iter()
            .map(|at| leaves[*at].gradient.clone())
            .collect()
    };
    let mut flags = Vec::new();
    if !wide.is_empty() {
        flags.push(kernels::finite::not_finite::<B>(gradients(&wide)));
    }
    if !low.is_empty() {
        let mut unscaled = kernels::unscale::unscale::<B>(gradients(&low), scale.recip());
        flags.extend(unscaled.pop());
        for (at, gradient) in low.iter().zip(unscaled) {
            leaves[*at].replace(grads, gradient);
        }
    }
    let flags = match flags.len() {
        0 | 1 => flags.pop()?,
        _ => B::float_cat(flags, 0),
    };
    Some(([wide, low].concat(), flags))
}
