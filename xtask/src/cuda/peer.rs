//! The same steps in PyTorch: a line of `xtask/cuda/pytorch.jsonl`, which `examples/lab/pytorch/traffic.py` writes.

use anyhow::Result;
use serde::Deserialize;

use super::lines;

/// The file with PyTorch's counts.
const PATH: &str = "xtask/cuda/pytorch.jsonl";

/// The counts of a step: at least so many launches and bytes, for each op is taken for one kernel.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    pub model: String,
    /// `tf32` or `amp-bf16`.
    pub precision: String,
    /// Whether attention is a kernel of its own.
    pub sdpa: bool,
    pub launches: u64,
    pub bytes_besides_products: u64,
}

/// Reads PyTorch's counts: of a model that has attention those with the fused one.
///
/// # Errors
///
/// Returns an error if the file is missing or a line is not understood.
pub fn read() -> Result<Vec<Peer>> {
    let all: Vec<Peer> = lines::read(PATH)?;
    let is_the_better = |peer: &&Peer| {
        peer.sdpa
            || !all.iter().any(|other| {
                other.sdpa && other.model == peer.model && other.precision == peer.precision
            })
    };
    Ok(all.iter().filter(is_the_better).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::plan;

    #[test]
    fn every_model_of_the_plan_has_counts_but_those_of_cudnn() {
        let peers = read().unwrap();
        for model in plan::FULL.iter().map(|model| model.name) {
            let is_of_cudnn = ["lstm", "bilstm", "gru", "rnn"].contains(&model);
            let counts = peers.iter().filter(|peer| peer.model == model).count();
            assert_eq!(counts, if is_of_cudnn { 0 } else { 2 }, "{model}");
        }
    }
}
