//! The examples of the book and of the README, which `cargo test --doc` compiles and runs.
//!
//! A test of `xtask` finds pages with examples that are missing here.

/// Makes a module of each page, whose documentation is the page.
///
/// A macro, because an attribute can neither be repeated over a list nor stand on an expression.
macro_rules! pages {
    ($($name:ident = $page:literal,)*) => {
        $(
            #[doc = include_str!(concat!("../../", $page))]
            mod $name {}
        )*
    };
}

pages! {
    readme = "README.md",
    checkpoints = "book/src/checkpoints.md",
    configuration = "book/src/configuration.md",
    custom_ops = "book/src/custom-ops.md",
    devices = "book/src/devices.md",
    diagnostics = "book/src/diagnostics.md",
    getting_started = "book/src/getting-started.md",
    learner = "book/src/learner.md",
    loop_by_hand = "book/src/loop.md",
    loss_scaling = "book/src/loss-scaling.md",
    memory = "book/src/memory.md",
    one_op = "book/src/one-op.md",
    overflow = "book/src/overflow.md",
    precision = "book/src/precision.md",
    pytorch = "book/src/pytorch.md",
    replay = "book/src/replay.md",
}
