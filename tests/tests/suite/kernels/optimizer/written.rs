//! What a step writes, for every dtype and form.

use super::{as_burn::assert_same, *};

/// The dtypes in which parameters are stored that are stepped in F32.
fn narrow() -> impl Iterator<Item = DType> {
    dtypes().into_iter().filter(|dtype| *dtype != DType::F64)
}

/// Scaled gradients that are clipped, in every dtype, of parameters in every dtype, with and without masters.
#[test]
fn gradients_are_unscaled_and_clipped_and_every_form_is_written() {
    for stored in narrow() {
        for gradient in narrow() {
            every_form_is_written(stored, gradient, DType::F32);
        }
    }
    if dtypes().contains(&DType::F64) {
        every_form_is_written(DType::F64, DType::F64, DType::F64);
    }
}

fn every_form_is_written(stored: DType, gradient: DType, wide: DType) {
    let shape = [9, 13];
    let cast = |tensor: &Float, to: DType| Plain::float_cast(tensor.clone(), to.into());
    let low = dtypes().into_iter().find(|dtype| *dtype == DType::F16);
    let parameter = random(shape, 1, stored);
    let master = random(shape, 5, wide);
    let gradient = random(shape, 2, gradient);
    let moments = || [3, 4].map(|seed| primitive(tensor(&random(shape, seed, wide)).abs()));
    for has_master in [false, true] {
        let what = format!("{stored:?}, master: {has_master}");
        let weights = if has_master {
            master.clone()
        } else {
            cast(&parameter, wide)
        };
        let factor = 0.25 / 16.0 * 0.5;
        let plain = Plain::float_mul_scalar(cast(&gradient, wide), factor.into());
        let expected = step(
            adam(),
            0.1,
            vec![listed(weights, plain, moments().into(), 2)],
        );
        let expected = optimizer::step::<References>(expected).remove(0);
        let list = Listed {
            factor: 0.25,
            master: match has_master {
                true => Master::F32(master.clone()),
                false => Master::Parameter,
            },
            low: low.map(FloatDType::from),
            ..listed(parameter.clone(), gradient.clone(), moments().into(), 2)
        };
        let list = ListStep {
            scaled_by: Some(state(16.0, false)),
            unless_overflowed: Some(state(16.0, false)),
            clip: Some(float(&[0.5], [1], DType::F32)),
            ..step(adam(), 0.1, vec![list])
        };
        let unchanged = data(&parameter);
        for stepped in both(list) {
            let near = |found: &Float, expected: &Float| {
                let [found, expected] = [found, expected].map(data);
                assert_eq!(found.dtype, expected.dtype, "{what}");
                found.assert_approx_eq::<f64>(&expected, Tolerance::absolute(1e-6));
            };
            let written = unsplit(&stepped.master);
            assert_eq!(written.is_some(), has_master);
            let written = written.unwrap_or(&stepped.parameter);
            if has_master || stored == wide {
                near(written, &expected.parameter);
            }
            assert_same(&cast(written, stored), &stepped.parameter, 0.0, &what);
            for (found, expected) in stepped.moments.iter().zip(&expected.moments) {
                near(unpacked(found), unpacked(expected));
            }
            if let Some(low) = low {
                let copy = stepped.low.as_ref().unwrap();
                assert_same(copy, &cast(&stepped.parameter, low), 0.0, &what);
            }
        }
        // The step was given clones, so it must not write to them.
        assert_eq!(data(&parameter), unchanged, "a shared parameter");
    }
}

/// The copy in low precision is that of the parameter as it is stored, also where its master knows it better.
#[test]
fn a_copy_of_a_parameter_is_rounded_from_what_is_stored() {
    for (stored, low) in narrow().flat_map(|stored| narrow().map(move |low| (stored, low))) {
        for overflowed in [false, true] {
            let master = random([9, 13], 1, DType::F32);
            let parameter = Plain::float_cast(master.clone(), stored.into());
            let gradient = random([9, 13], 2, DType::F32);
            let list = Listed {
                master: Master::F32(master),
                low: Some(low.into()),
                ..listed(parameter, gradient, undefined(adam(), [9, 13]), 1)
            };
            let list = ListStep {
                unless_overflowed: Some(state(16.0, overflowed)),
                ..step(adam(), 0.1, vec![list])
            };
            for stepped in both(list) {
                let expected = Plain::float_cast(stepped.parameter, low.into());
                let what = format!("{stored:?} in {low:?}, overflowed: {overflowed}");
                assert_same(stepped.low.as_ref().unwrap(), &expected, 0.0, &what);
            }
        }
    }
}

#[test]
fn gradients_have_any_layout_and_any_number() {
    let values = noise(24, 1);
    let source = || tensor(&float(&values, [4, 6], DType::F32));
    let mut cases = vec![
        source().transpose(),
        source().slice([1..3, 2..5]),
        source().slice([1..3, 2..5]).transpose(),
        source().slice([2..3, 0..6]).expand([3, 6]),
    ];
    // On CUDA, reading a tensor without elements fails in burn-cubecl: a launch without cubes is refused.
    if cfg!(not(feature = "cuda")) {
        cases.push(Tensor::empty([0, 6], &here()));
    }
    let list = |place: fn(Tensor<Plain, 2>) -> Tensor<Plain, 2>| {
        let parameters = (0..100).map(|at| {
            let gradient = cases[at % cases.len()].clone();
            let shape = gradient.dims();
            let parameter = random(shape, at, DType::F32);
            listed(
                parameter,
                primitive(place(gradient)),
                undefined(adam(), shape),
                1,
            )
        });
        step(adam(), 0.1, parameters.collect())
    };
    let found = optimizer::step::<Plain>(list(|strided| strided));
    let contiguous = list(|gradient| Tensor::from_data(gradient.into_data(), &here()));
    let expected = optimizer::step::<References>(contiguous);
    assert_eq!(found.len(), 100);
    for (found, expected) in found.iter().zip(&expected) {
        let near = |of: fn(&SteppedOf<Plain>) -> &Float| {
            let [found, expected] = [found, expected].map(|stepped| data(of(stepped)));
            found.assert_approx_eq::<f32>(&expected, Tolerance::absolute(1e-6));
        };
        near(|stepped| &stepped.parameter);
        if data(&found.parameter).num_elements() > 0 {
            near(|stepped| unpacked(&stepped.moments[1]));
        }
    }
}
