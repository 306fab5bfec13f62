//! Moments that are rounded to fewer bytes, masters as an offset, and parameters in BF16 without one.

use burn_amp_kernels::optimizer::rounding;

use super::*;

/// The formats in which moments are rounded, with the bits of an F32 that each does not have.
const ROUNDED: [(MomentFormat, u32); 2] = [(MomentFormat::Bf16, 16), (MomentFormat::Bits8, 20)];

/// The numbers of a moment.
fn widened(moment: &StoredMomentOf<Plain>, shape: [usize; 2], place: usize) -> Vec<f32> {
    let place = Place::at(place);
    let wide = optimizer::widened::<Plain>(moment.clone(), shape.into(), DType::F32, place);
    data(&wide).to_vec().unwrap()
}

/// The kernel draws the numbers of the reference, so that nearly all elements have the same bits; where a sum is rounded
/// differently by one F32 step, it may be rounded to the other neighbour.
#[test]
fn moments_are_rounded_by_the_same_draws_everywhere() {
    let momentum = MomentumConfig::new().with_nesterov(true);
    let amsgrad = AdamWConfig::new().with_amsgrad(true);
    let sgd = SgdConfig::new().with_momentum(Some(momentum));
    let rules = [
        adam(),
        OptimizerConfig::<Plain>::rule(&amsgrad).unwrap(),
        OptimizerConfig::<Plain>::rule(&sgd).unwrap(),
    ];
    for (rule, format) in rules
        .into_iter()
        .flat_map(|rule| ROUNDED.map(|of| (rule, of)))
    {
        for time in [1, 2, 7] {
            same_draws(rule, format, time);
        }
    }
}

fn same_draws(rule: Rule, (format, low_bits): (MomentFormat, u32), time: usize) {
    let list = || {
        let listed = SHAPES.iter().enumerate().map(|(at, shape)| {
            let [parameter, gradient] = [1, 2].map(|seed| random(*shape, seed, DType::F32));
            let moments = (0..rule.moments()).map(|place| {
                let values = random(*shape, place, DType::F32);
                match place {
                    0 => rounded(&values, format, place),
                    _ => rounded(&primitive(tensor(&values).abs()), format, place),
                }
            });
            Listed {
                moments: moments.collect(),
                key: rounding::mixed(at as u32 + 10 * time as u32),
                ..listed(parameter, gradient, Vec::new(), time)
            }
        });
        step(rule, 0.01, listed.collect())
    };
    let what = format!("{rule:?}, {format:?}, step {time}");
    let reference = optimizer::step::<References>(list());
    let kernel = optimizer::step::<Plain>(list());
    let [mut same, mut all] = [0, 0];
    for ((found, expected), shape) in kernel.iter().zip(&reference).zip(SHAPES) {
        assert_within_an_ulp(&found.parameter, &expected.parameter, 2.0, &what);
        for (place, pair) in found.moments.iter().zip(&expected.moments).enumerate() {
            // The magnitudes, counted in steps of the format.
            let [found, expected] = <[_; 2]>::from(pair).map(|moment| {
                assert_eq!(moment.format(), format);
                let values = widened(moment, shape, place).into_iter();
                values.map(|x| x.abs().to_bits() >> low_bits)
            });
            for (found, expected) in found.zip(expected) {
                let is_near = found.abs_diff(expected) <= 1 || found.min(expected) == 0;
                assert!(is_near, "{what}: {found:x}, {expected:x}");
                same += usize::from(found == expected);
                all += 1;
            }
        }
    }
    assert!(same * 1000 >= all * 999, "{rule:?}: {same} of {all}");
}

/// The moments after a step are one of the two neighbours of what an F32 step computes from the same moments, and right on
/// average.
#[test]
fn rounded_moments_are_right_on_average() {
    let shape = [300, 400];
    let [parameter, gradient] = [1, 2].map(|seed| random(shape, seed, DType::F32));
    let after = |moments| Listed {
        moments,
        key: rounding::mixed(99),
        ..listed(parameter.clone(), gradient.clone(), Vec::new(), 2)
    };
    for (format, low_bits) in ROUNDED {
        let moments = moments(shape, 3, format);
        let wide = (0..2).map(|place| {
            let values = widened(&moments[place], shape, place);
            Moment::Wide(Plain::float_from_data(
                TensorData::new(values, shape),
                &here(),
            ))
        });
        let exact = step(adam(), 0.01, vec![after(wide.collect())]);
        let exact = optimizer::step::<References>(exact).remove(0);
        let kept = step(adam(), 0.01, vec![after(moments)]);
        let kept = optimizer::step::<Plain>(kept).remove(0);
        let low = (1 << low_bits) - 1;
        for (at, (kept, exact)) in kept.moments.iter().zip(&exact.moments).enumerate() {
            let (mut sum, mut variance) = (0.0, 0.0);
            let exact = data(unpacked(exact));
            for (kept, exact) in widened(kept, shape, at)
                .into_iter()
                .zip(exact.iter::<f32>())
            {
                // A block keeps no number below 2^-15 of its largest, which is at most 3.
                if exact.abs() < 3.0 * 2f32.powi(-15) {
                    continue;
                }
                let below = f64::from(f32::from_bits(exact.to_bits() & !low));
                let above = f64::from(f32::from_bits((exact.to_bits() & !low) + low + 1));
                let error = (f64::from(kept) - f64::from(exact)) / (above - below);
                // One F32 step, by which a kernel may differ, is at most 2^-16 of a step of the format.
                assert!(error.abs() <= 1.0 + 2f64.powi(-15), "{kept} for {exact}");
                let fraction = (f64::from(exact) - below) / (above - below);
                sum += error;
                variance += fraction * (1.0 - fraction);
            }
            let largest = 4.0 * variance.sqrt();
            assert!(
                sum.abs() <= largest,
                "{format:?}: {sum}, variance {variance}"
            );
        }
    }
}

/// The offset in a dtype of each of these masters, which have as many bits as parameter and offset.
fn offsets(masters: &[u32], dtype: DType, shape: [usize; 2]) -> MasterOf<Plain> {
    let offsets = masters.iter().map(|bits| *bits as u16 as i16);
    let data = match dtype {
        DType::I8 => {
            let offsets: Vec<_> = offsets.map(|offset| (offset / 256) as i8).collect();
            TensorData::new(offsets, shape)
        }
        _ => TensorData::new(offsets.collect::<Vec<_>>(), shape),
    };
    Master::Offset(Plain::int_from_data(data, &here()))
}

/// A master as an offset from a BF16 parameter is stepped as the F32 master, in 8 bits as one that is then rounded to 24
/// bits: the kernel computes with the bits, the reference in Burn's ops. The software driver of Vulkan has no BF16, so there
/// the kernel gets the BF16 number in F32.
#[test]
fn split_masters_step_as_f32_masters() {
    for (dtype, dropped) in [(DType::I16, 0), (DType::I8, 0xff)] {
        split_masters_step(dtype, dropped);
    }
}

fn split_masters_step(dtype: DType, dropped: u32) {
    let kept = |master: f32| {
        let half = dropped.div_ceil(2);
        f32::from_bits((master.to_bits() + half) & !dropped)
    };
    let has_bf16 = dtypes().contains(&DType::BF16);
    let stored = if has_bf16 { DType::BF16 } else { DType::F32 };
    for (shape, scale) in SHAPES.into_iter().zip([1.0, 1e-20, 1e20, 1e-3, 1.0]) {
        let mut values: Vec<_> = noise(shape[0] * shape[1], 7);
        values[0] = 0.0;
        values.iter_mut().for_each(|value| *value *= scale);
        let values: Vec<_> = values.into_iter().map(|x| kept(x as f32).into()).collect();
        let master = float(&values, shape, DType::F32);
        let bits: Vec<u32> = data(&master).iter::<f32>().map(f32::to_bits).collect();
        let upper = |bits: &u32| f32::from_bits(bits.wrapping_add(0x8000) & 0xffff_0000).into();
        let upper: Vec<f64> = bits.iter().map(upper).collect();
        let offset = offsets(&bits, dtype, shape);
        let gradient = random(shape, 2, DType::F32);
        for unless_overflowed in [None, Some(state(8.0, true))] {
            let list = |master| {
                let parameter = float(&upper, shape, stored);
                let listed = Listed {
                    master,
                    ..listed(parameter, gradient.clone(), undefined(adam(), shape), 1)
                };
                ListStep {
                    unless_overflowed: unless_overflowed.clone(),
                    ..step(adam(), 0.01 * scale, vec![listed])
                }
            };
            let expected = optimizer::step::<Plain>(list(Master::F32(master.clone()))).remove(0);
            let expected = data(unsplit(&expected.master).unwrap());
            let split = list(offset.clone());
            let found = match has_bf16 {
                true => both(split).to_vec(),
                false => optimizer::step::<Plain>(split),
            };
            for stepped in found {
                let Master::Offset(offset) = stepped.master else {
                    panic!("the step changed the form of a master");
                };
                let offset = read_sync(Plain::int_into_data(offset)).unwrap();
                let parameter = data(&stepped.parameter);
                assert_eq!((offset.dtype, parameter.dtype), (dtype, stored));
                let unit = if dtype == DType::I8 { 256 } else { 1 };
                let joined = parameter.iter::<f32>().zip(offset.iter::<i32>());
                let joined = joined.map(|(parameter, offset)| {
                    assert_eq!(parameter.to_bits() & 0xffff, 0);
                    f32::from_bits(parameter.to_bits().wrapping_add_signed(unit * offset))
                });
                assert!(
                    joined.eq(expected.iter::<f32>().map(kept)),
                    "{dtype:?}, {shape:?}, {scale}"
                );
            }
        }
    }
}

/// A BF16 parameter without a master, or with one in 24 bits, moves on average by what an F32 parameter moves, though each
/// step is a small part of the distance to its neighbours. The kernel draws the numbers of the reference.
#[cfg(not(feature = "vulkan"))]
#[test]
fn a_parameter_in_bf16_moves_on_average() {
    let rule = OptimizerConfig::<Plain>::rule(&SgdConfig::new()).unwrap();
    let shape = [64, 64];
    let ones = |dtype| float(&[1.0; 4096], shape, dtype);
    // Below 1, neighbours are 2^-8 apart in BF16, and 2^-16 in 24 bits. A step is a 32nd of that.
    for (master, ulp) in [
        (Master::Parameter, 2f64.powi(-8)),
        (offsets(&[0; 4096], DType::I8, shape), 2f64.powi(-16)),
    ] {
        for rounds_stochastically in [false, true] {
            let mut parameter = ones(DType::BF16);
            let mut master = master.clone();
            for time in 1..=64 {
                let list = Listed {
                    key: rounding::mixed(time as u32),
                    rounds_stochastically,
                    master,
                    ..listed(parameter, ones(DType::F32), Vec::new(), time)
                };
                let [reference, kernel] = both(step(rule, ulp / 32.0, vec![list]));
                let weights = [&reference, &kernel].map(|stepped| {
                    optimizer::weights::<Plain>(stepped.master.clone(), stepped.parameter.clone())
                });
                assert!(data(&weights[0]) == data(&weights[1]), "step {time}");
                (parameter, master) = (kernel.parameter, kernel.master);
            }
            assert_eq!(data(&parameter).dtype, DType::BF16);
            let weights = data(&optimizer::weights::<Plain>(master, parameter));
            let moved = 1.0 - weights.iter::<f64>().sum::<f64>() / 4096.0;
            if rounds_stochastically {
                // The variance of 64 roundings is almost 64 / 32, so the standard error of 4096 elements is 0.022.
                assert!((moved / ulp - 2.0).abs() < 0.09, "{moved}");
            } else {
                assert_eq!(moved, 0.0);
            }
        }
    }
}
