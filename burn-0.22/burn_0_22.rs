//! Tells the shared sources for which release of Burn they are compiled.

fn main() {
    println!("cargo::rerun-if-changed=../burn_0_22.rs");
    println!("cargo::rustc-check-cfg=cfg(burn_0_22)");
    println!("cargo::rustc-cfg=burn_0_22");
    // On in the patch for backends of CubeCL only.
    println!("cargo::rustc-check-cfg=cfg(cube_kernels)");
}
