//! Prints a program as Rust.

use std::fmt::Write as _;

use super::all::*;

/// The program as a function that compiles where `use burn_amp_tests::random::printed::*` is.
///
/// It computes the steps and the backward passes once, and returns what the program reads. What happens around them,
/// such as the optimizer, is said in a comment.
pub fn rust(program: &Program, name: &str) -> String {
    let mut text = String::new();
    print(program, name, &mut text).expect("a string takes everything");
    text
}

fn print(program: &Program, name: &str, out: &mut String) -> std::fmt::Result {
    let Program {
        seed,
        passes,
        optimizer,
        checkpointing,
        ..
    } = program;
    writeln!(
        out,
        "// Seed {}, {passes} passes, optimizer {optimizer:?}, checkpointing: {checkpointing}.",
        seed.literal()
    )?;
    writeln!(
        out,
        "pub fn {name}<B: AutodiffBackend>(to: &Setting<B>) -> Read {{"
    )?;
    writeln!(out, "    let mut read = Read::default();")?;
    for (number, leaf) in program.leaves.iter().enumerate() {
        let seed = leaf_seed(program.seed, number).literal();
        let tracked = matches!(leaf.kind, LeafKind::Tracked | LeafKind::Parameter);
        let (shape, scale, offset) = (
            leaf.shape.literal(),
            leaf.scale.literal(),
            leaf.offset.literal(),
        );
        writeln!(out, "    // {:?}", leaf.kind)?;
        writeln!(
            out,
            "    let v{number} = leaf::<B>(to, {shape}, {scale}, {offset}, {tracked}, {seed});"
        )?;
    }
    for (number, layer) in program.layers.iter().enumerate() {
        let seed = leaf_seed(program.seed, 1000 + number).literal();
        writeln!(
            out,
            "    let layer{number} = {}.init::<B>(to, {seed});",
            layer.literal()
        )?;
    }
    for (place, step) in program.steps.iter().enumerate() {
        let number = program.leaves.len() + place;
        let scope = if step.full_precision {
            "full_precision(|| "
        } else {
            ""
        };
        let end = if step.full_precision { ")" } else { "" };
        match step.op.text() {
            None => {
                let Op::Layer(layer) = step.op else {
                    unreachable!("only a layer has no text")
                };
                let x = step.operands[0];
                writeln!(
                    out,
                    "    let v{number} = {scope}layer{layer}.forward(v{x}.clone()){end};"
                )?;
            }
            Some(op) => {
                let operands = op.operands.iter().zip(&step.operands);
                let operands = operands.map(|(name, of)| format!("let {name} = v{of}.clone(); "));
                let parameters = op.parameters.iter();
                let parameters = parameters.map(|(name, value)| format!("let {name} = {value}; "));
                let lets: String = operands.chain(parameters).collect();
                let body: Vec<_> = op.body.split_whitespace().collect();
                let body = body.join(" ");
                writeln!(out, "    let v{number} = {scope}{{ {lets}{body} }}{end};")?;
            }
        }
        if step.read != super::program::Read::Never {
            writeln!(out, "    // read: {:?}", step.read)?;
            let name = program.value_name(number);
            writeln!(out, "    read.value::<B>(\"{name}\", v{number}.clone());")?;
        }
    }
    let leaf = |number: &usize| match number.checked_sub(program.leaves.len()) {
        None => matches!(
            program.leaves[*number].kind,
            LeafKind::Tracked | LeafKind::Parameter
        ),
        Some(place) => matches!(program.steps[place].op, Op::Movement(Movement::NewLeaf {})),
    };
    let leaves: Vec<usize> = (0..program.leaves.len() + program.steps.len())
        .filter(leaf)
        .collect();
    for (place, root) in program.roots.iter().enumerate() {
        writeln!(out, "    let grads = B::backward(v{root}.clone());")?;
        for leaf in &leaves {
            let name = program.value_name(*leaf);
            writeln!(
                out,
                "    read.gradient::<B>(\"{name} by root {place}\", &v{leaf}, &grads);"
            )?;
        }
    }
    writeln!(out, "    read\n}}")
}
