//! Programs as `print::rust` prints them; a test compares the text, and runs them.

use burn_amp_tests::random::printed::*;

// Seed 0x3, 1 passes, optimizer None, checkpointing: true.
pub fn first<B: AutodiffBackend>(to: &Setting<B>) -> Read {
    let mut read = Read::default();
    // Tracked
    let v0 = leaf::<B>(to, vec![1, 36], 1.0, 0.0, true, 0xa2042dba6cbcaf9b);
    // Tracked
    let v1 = leaf::<B>(to, vec![36], 0.25, 0.0, true, 0xee1914ea7f5851a7);
    // Tracked
    let v2 = leaf::<B>(to, vec![36, 36], 1.0, 1.5, true, 0x26acb5b475148578);
    // Tracked
    let v3 = leaf::<B>(to, vec![2, 2], 2.0, 0.0, true, 0x6adb2215a1e35b7d);
    // Tracked
    let v4 = leaf::<B>(to, vec![32, 36], 1.0, 1.5, true, 0xf41e27afd4f87a53);
    let v5 = { let x = v3.clone(); let y = v3.clone(); B::float_matmul(x, y) };
    // read: AfterBackward
    read.value::<B>("v5 (Matmul)", v5.clone());
    let v6 = { let x = v3.clone(); B::relu(x) };
    // read: AfterBackward
    read.value::<B>("v6 (Relu)", v6.clone());
    let v7 = { let x = v4.clone(); B::relu(x) };
    let v8 = { let x = v7.clone(); let dim = 1; B::softmax(x, dim) };
    let v9 = full_precision(|| { let x = v5.clone(); let seed = 0xcd365e0074f8ebf6; { let weights = to.noise_like(&x, seed); B::float_sum(B::float_mul(x, weights)) } });
    let v10 = { let x = v6.clone(); let seed = 0x385a059a3e5ecd47; { let weights = to.noise_like(&x, seed); B::float_sum(B::float_mul(x, weights)) } };
    let v11 = { let x = v9.clone(); let y = v10.clone(); B::float_add(x, y) };
    let v12 = { let x = v8.clone(); let seed = 0x655f369abde248c2; { let weights = to.noise_like(&x, seed); B::float_sum(B::float_mul(x, weights)) } };
    let v13 = { let x = v11.clone(); let y = v12.clone(); B::float_add(x, y) };
    let grads = B::backward(v13.clone());
    read.gradient::<B>("v0 by root 0", &v0, &grads);
    read.gradient::<B>("v1 by root 0", &v1, &grads);
    read.gradient::<B>("v2 by root 0", &v2, &grads);
    read.gradient::<B>("v3 by root 0", &v3, &grads);
    read.gradient::<B>("v4 by root 0", &v4, &grads);
    read
}
// Seed 0x12, 1 passes, optimizer None, checkpointing: true.
pub fn second<B: AutodiffBackend>(to: &Setting<B>) -> Read {
    let mut read = Read::default();
    // Tracked
    let v0 = leaf::<B>(to, vec![2, 12, 2], 2.0, 0.0, true, 0x87efeb33c20da83f);
    // Input
    let v1 = leaf::<B>(to, vec![4, 1, 12], 0.25, 0.0, false, 0x2ecfc8e6ac6ddd5);
    let layer0 = LayerSpec::Linear { input: 12, output: 4, bias: true }.init::<B>(to, 0xf9a8ad4ba0291b70);
    let v2 = layer0.forward(v1.clone());
    // read: BeforeBackward
    read.value::<B>("v2 (Linear)", v2.clone());
    let v3 = full_precision(|| { let x = v0.clone(); B::float_transpose(x) });
    let v4 = { let x = v2.clone(); let value = 2.0; B::float_div_scalar(x, value.into()) };
    // read: BeforeBackward
    read.value::<B>("v4 (DivScalar)", v4.clone());
    let v5 = { let x = v4.clone(); let mask = Mask::All(true); let value = -900.0; { let mask = to.mask(mask, &x); B::float_mask_fill(x, mask, value.into()) } };
    let v6 = { let x = v5.clone(); let dim = 2; B::softmax(x, dim) };
    let v7 = { let x = v3.clone(); let seed = 0x6b3beea05c4713ea; { let weights = to.noise_like(&x, seed); B::float_sum(B::float_mul(x, weights)) } };
    // read: Together
    read.value::<B>("v7 (WeightedSum)", v7.clone());
    let v8 = { let x = v6.clone(); let seed = 0x88f521fabc55e8f9; { let weights = to.noise_like(&x, seed); B::float_sum(B::float_mul(x, weights)) } };
    // read: AtOnce
    read.value::<B>("v8 (WeightedSum)", v8.clone());
    let v9 = { let x = v7.clone(); let y = v8.clone(); B::float_add(x, y) };
    let grads = B::backward(v9.clone());
    read.gradient::<B>("v0 by root 0", &v0, &grads);
    read
}
// Seed 0x17, 1 passes, optimizer None, checkpointing: false.
pub fn third<B: AutodiffBackend>(to: &Setting<B>) -> Read {
    let mut read = Read::default();
    // Tracked
    let v0 = leaf::<B>(to, vec![3, 4, 1, 2], 2.0, 0.0, true, 0x8fbee9abb5ddbb93);
    // Tracked
    let v1 = leaf::<B>(to, vec![4, 2, 32], 0.25, 1.5, true, 0xde6a6e93a1df9fec);
    // Input
    let v2 = leaf::<B>(to, vec![7, 2], 2.0, 0.0, false, 0xb0a3ea56010edddf);
    // Input
    let v3 = leaf::<B>(to, vec![1, 4, 7, 32], 1.0, 0.0, false, 0x45145252dd01d486);
    let layer0 = LayerSpec::InstanceNorm { channels: 4 }.init::<B>(to, 0x74385b995daf03d6);
    let v4 = layer0.forward(v0.clone());
    // read: BeforeBackward
    read.value::<B>("v4 (InstanceNorm)", v4.clone());
    let v5 = { let x = v2.clone(); B::float_exp(x) };
    // read: AtOnce
    read.value::<B>("v5 (Exp)", v5.clone());
    let v6 = { let x = v5.clone(); let value = 0.01; B::float_mul_scalar(x, value.into()) };
    let v7 = { let x = v6.clone(); B::float_transpose(x) };
    // read: Together
    read.value::<B>("v7 (Transpose)", v7.clone());
    let v8 = { let x = v6.clone(); let y = v7.clone(); B::float_matmul(x, y) };
    let v9 = { let x = v8.clone(); let dim = 1; B::float_mean_dim(x, dim) };
    // read: BeforeBackward
    read.value::<B>("v9 (MeanDim)", v9.clone());
    let v10 = { let x = v8.clone(); let y = v9.clone(); B::float_sub(x, y) };
    // read: Together
    read.value::<B>("v10 (Sub)", v10.clone());
    let v11 = { let x = v9.clone(); B::float_transpose(x) };
    let v12 = { let x = v3.clone(); B::float_transpose(x) };
    let v13 = { let x = v3.clone(); let y = v12.clone(); B::float_matmul(x, y) };
    // read: Together
    read.value::<B>("v13 (Matmul)", v13.clone());
    let v14 = { let x = v13.clone(); let value = 8.0; B::float_div_scalar(x, value.into()) };
    let v15 = { let x = v14.clone(); let mask = Mask::Random(0xa18701b1bb51072c); let value = 0.0; { let mask = to.mask(mask, &x); B::float_mask_fill(x, mask, value.into()) } };
    let v16 = { let x = v15.clone(); let dim = 3; B::float_sum_dim(x, dim) };
    let v17 = { let x = v12.clone(); let y = v16.clone(); B::float_matmul(x, y) };
    let v18 = { let x = v17.clone(); let value = 1.0; B::float_mul_scalar(x, value.into()) };
    let v19 = { let x = v18.clone(); B::sigmoid(x) };
    let v20 = { let x = v13.clone(); let dim = 2; B::float_sum_dim(x, dim) };
    // read: BeforeBackward
    read.value::<B>("v20 (SumDim)", v20.clone());
    let v21 = { let x = v18.clone(); let y = v4.clone(); B::float_matmul(x, y) };
    // read: AtOnce
    read.value::<B>("v21 (Matmul)", v21.clone());
    let v22 = { let x = v11.clone(); B::float_transpose(x) };
    // read: BeforeBackward
    read.value::<B>("v22 (Transpose)", v22.clone());
    let v23 = { let x = v21.clone(); let seed = 0x7aac5b6ea5668d84; { let weights = to.noise_like(&x, seed); B::float_sum(B::float_mul(x, weights)) } };
    let grads = B::backward(v23.clone());
    read.gradient::<B>("v0 by root 0", &v0, &grads);
    read.gradient::<B>("v1 by root 0", &v1, &grads);
    read
}
