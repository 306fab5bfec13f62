//! Why a run is not faster than F32.

use super::Circumstances;
use crate::{layers::Shapes, machine::Hardware, summary::percent};

/// From this part on, what does not grow with the batch, or is no matrix, outweighs what does or is.
const MOSTLY: f64 = 0.5;

/// From this part of the matrices on, odd sides are worth a word.
const NOTABLE: f64 = 0.1;

/// The most telling reason first; never none. `casts` are those of a step.
pub fn why_not_faster(
    circumstances: &Circumstances,
    hardware: Hardware,
    casts: Option<u64>,
) -> Vec<String> {
    let Circumstances {
        loss_ranks: _,
        shapes,
        fixed_share,
        rounds_f32,
    } = circumstances;
    match hardware {
        Hardware::Emulated => return vec![EMULATED.to_owned()],
        Hardware::Plain => return vec![PLAIN.to_owned()],
        Hardware::Accelerated => {}
    }
    let known = [too_small(*fixed_share), odd(shapes), few_matrices(shapes)];
    let mut reasons: Vec<String> = known.into_iter().flatten().collect();
    if reasons.is_empty() {
        let casts = casts.map_or(String::new(), |casts| {
            format!(" and {casts} casts per step")
        });
        reasons.push(format!(
            "It is large enough and its dimensions are multiples of 8, so it is probably not matmul-bound: norms, \
             softmax, the optimizer{casts} take the time."
        ));
    }
    if *rounds_f32 {
        reasons.push("F32's products may run on tensor cores here, too, in TF32.".to_owned());
    }
    reasons
}

const EMULATED: &str = "The CPU emulates half precision: this time says nothing about a GPU.";
const PLAIN: &str = "The device has no units for matrix products in this precision.";

fn too_small(fixed_share: Option<f64>) -> Option<String> {
    let share = fixed_share.filter(|share| *share >= MOSTLY)?;
    Some(format!(
        "Too small: about {} of a step in f32 does not grow with the batch (launches, the optimizer).",
        percent(share)
    ))
}

fn odd(shapes: &Shapes) -> Option<String> {
    const SHOWN: usize = 3;

    if shapes.odd_share < NOTABLE {
        return None;
    }
    let odd = shapes.odd.iter().take(SHOWN);
    let odd: Vec<String> = odd
        .map(|layer| format!("{} {:?}", layer.name, layer.shape))
        .collect();
    Some(format!(
        "Dimensions that are not multiples of 8, in {} of the matrices' parameters: {}.",
        percent(shapes.odd_share),
        odd.join(", ")
    ))
}

fn few_matrices(shapes: &Shapes) -> Option<String> {
    (shapes.matrix_share < MOSTLY).then(|| {
        format!(
            "Not matmul-bound: {} of the parameters are in matrices.",
            percent(shapes.matrix_share)
        )
    })
}
