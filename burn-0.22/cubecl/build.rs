//! Tells the shared sources for which release of Burn they are compiled, and that there are kernels.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for name in ["burn_0_22", "cube_kernels"] {
        println!("cargo::rustc-check-cfg=cfg({name})");
        println!("cargo::rustc-cfg={name}");
    }
}
