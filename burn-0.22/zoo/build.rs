//! Takes the backend out of the sources of the zoo: in Burn 0.21 it is a parameter of every tensor and module, and in 0.22
//! a tensor has it as a value.

#[path = "../rewritten.rs"]
mod rewritten;

/// What stands in the sources, and what is there instead, in the order in which it is replaced.
const CHANGES: [(&str, &str); 21] = [
    // A module and its optimizer.
    (
        ": Net<B, Model = Self>\n        + AutodiffModule<B, InnerModule = Self::Net<B::InnerBackend>>;",
        ": Net<Model = Self>;",
    ),
    ("{AutodiffModule, Module}", "Module"),
    (
        "<B: AutodiffBackend, O: Optimizer<Self::TrainNet<B>, B>>",
        "<O: crate::Steps>",
    ),
    (
        "<B: AutodiffBackend, O: Optimizer<Wgan<B>, B>>",
        "<O: crate::Steps>",
    ),
    ("LearningRate, Optimizer}", "LearningRate}"),
    // The trait of backends that train.
    ("    tensor::backend::AutodiffBackend,\n", ""),
    (
        "{activation::relu, backend::AutodiffBackend}",
        "activation::relu",
    ),
    ("{TensorData, backend::AutodiffBackend}", "TensorData"),
    (", backend::AutodiffBackend}", "}"),
    ("<B: AutodiffBackend>", ""),
    ("B::InnerBackend, ", ""),
    // The backend.
    ("B::Device", "Device"),
    ("<B: Backend>", ""),
    ("<B: Backend, ", "<"),
    ("::<B>", ""),
    ("<B>", ""),
    ("<B, ", "<"),
    // What is read of PyTorch's files stands beside this script.
    ("mod example;\n", ""),
    ("pub mod weights;\n", ""),
    (
        "\"../data/as-you-like-it.txt\"",
        "concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/../../examples/zoo/data/as-you-like-it.txt\")",
    ),
    ("into_vec()", "try_into_vec()"),
];

fn main() {
    rewritten::rewrite("../../examples/zoo/src", &CHANGES);
}
