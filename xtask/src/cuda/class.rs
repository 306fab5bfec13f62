//! The classes of kernels, by their names: what a launch is for.

/// A class, and how the names of its kernels begin, or what they contain after `*`.
const CLASSES: &[(&str, &[&str])] = &[
    (
        "product",
        &["*matmul", "*gemm", "*conv2d", "*conv1d", "*conv_transpose"],
    ),
    ("cast", &["cast_element"]),
    (
        "copy",
        &[
            "copy_kernel",
            "cat_kernel",
            "split_kernel",
            "slice_",
            "interpolate",
            "flip",
        ],
    ),
    ("reduction", &["reduce_kernel", "*reduce"]),
    ("fused", &["elemwise_fuse"]),
    ("row", &["softmax", "log_softmax", "layer_norm"]),
    (
        "norm",
        &[
            "norm_",
            "affine_",
            "spread_",
            "sum_of_slices",
            "column_sums",
        ],
    ),
    (
        "optimizer",
        &["optimizer_kernel", "squares_kernel", "total_kernel"],
    ),
    (
        "loss scale",
        &[
            "not_finite",
            "finite",
            "unscale",
            "next_loss_scale",
            "any_overflow",
        ],
    ),
];

/// All names that [`of`] returns, in the order of tables.
pub const NAMES: &[&str] = &[
    "product",
    "fused",
    "elementwise",
    "elementwise, narrow",
    "row",
    "row, narrow",
    "norm",
    "reduction",
    "cast",
    "copy",
    "optimizer",
    "loss scale",
];

/// Returns the class of the kernel with this name. Narrow kernels access one element of at most 4 bytes at a time.
pub fn of(entry: &str) -> &'static str {
    let class = CLASSES
        .iter()
        .find(|(_, patterns)| patterns.iter().any(|pattern| fits(entry, pattern)))
        .map_or("elementwise", |(class, _)| *class);
    match (class, entry.ends_with("_n_1")) {
        ("elementwise", true) => "elementwise, narrow",
        ("row", true) => "row, narrow",
        _ => class,
    }
}

/// Whether the kernel with this name is burn-amp's: those of burn-amp-kernels, by the names of their functions.
pub fn is_ours(entry: &str) -> bool {
    const OURS: &[&str] = &[
        "softmax_kernel",
        "softmax_backward_kernel",
        "log_softmax_",
        "layer_norm_",
        "scalar_kernel",
        "activation_",
        "not_finite",
        "not_positive",
        "zeroed",
        "unscale_",
        "next_loss_scale",
        "affine_",
        "spread_kernel",
        "sum_of_slices",
        "column_sums",
        "cat_kernel",
        "split_kernel",
        "optimizer_kernel",
        "squares_kernel",
        "total_kernel",
        "windows_kernel",
        "grouped_conv2d",
        "implicit_conv2d",
    ];
    OURS.iter().any(|name| entry.starts_with(name))
}

fn fits(entry: &str, pattern: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(part) => entry.contains(part),
        None => entry.starts_with(pattern),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_a_kernel_is_for() {
        for (entry, class) in [
            ("matmul_entry_lhs_bf16_lhs_size_8", "product"),
            ("direct_conv2d_kernel_e_bf16_nin_8_nout_8", "product"),
            ("cast_element_i_f32_o_bf16_n_4", "cast"),
            ("copy_kernel_pack_t_bf16_n_8", "copy"),
            ("elemwise_fuse", "fused"),
            ("log_softmax_kernel_f_bf16_o_f32_n_1", "row, narrow"),
            ("layer_norm_kernel_f_bf16_n_8", "row"),
            ("kernel_binop_c_f32_n_4", "elementwise"),
            ("kernel_binop_c_f32_n_1", "elementwise, narrow"),
            ("not_finite_kernel", "loss scale"),
        ] {
            assert_eq!(of(entry), class, "{entry}");
            assert!(NAMES.contains(&class));
        }
    }
}
