//! Masters, as a model and split.

use super::*;

/// With every optimizer that has masters, the master model is the one that was stepped: rounded, it equals the trained model.
#[test]
fn the_master_model_is_the_f32_model_that_was_trained() {
    fn masters<P: ConfigSource>() -> Vec<u8> {
        let _policy = enter::<P>();
        fn check<P: ConfigSource, O>(mut optimizer: O) -> Vec<u8>
        where
            O: Optimizer<Net<B>, B> + MasterModel<Net<B>>,
        {
            let _policy = enter::<P>();
            let mut net = net::<P>();
            for step in 0..6 {
                let grads = grads(&net, step);
                net = optimizer.step(0.05, net, grads);
            }
            let masters = optimizer.master_model(net.clone());
            let rounded = cast_params_to(masters.clone(), Preset::O2, Precision::F16);
            assert!(save::<B, _>(rounded) == save::<B, _>(net.clone()));
            let masters = save::<B, _>(masters);
            assert!(masters != save::<B, _>(net));
            masters
        }
        let adam = AdamConfig::new();
        let expected = check::<P, _>(AmpOptimizer::new(adam.clone()).init());
        let burns = AmpOptimizer::new(OneByOne(adam.clone()));
        assert!(check::<P, _>(burns.init()) == expected);
        let masters = MasterWeights::new(adam);
        assert!(check::<P, _>(LossScaleOptimizer::new(masters.init())) == expected);
        expected
    }
    assert!(masters::<O2Waits>() == masters::<O2Goes>());
}

/// In BF16, masters in 2 bytes equal those in 4 bytes.
#[cfg(not(feature = "vulkan"))] // the software driver has no BF16
#[test]
fn split_masters_are_the_masters() {
    policy!(
        O2InBf16,
        burn_amp_tests::in_bf16(|it| it.preset = Preset::O2)
    );
    fn trained(masters: Masters) -> Vec<u8> {
        type P = O2InBf16;
        let _policy = enter::<P>();
        let mut optimizer = AmpOptimizer::new(AdamConfig::new())
            .with_masters(masters)
            .init();
        let mut net = net::<P>();
        for step in 0..STEPS {
            let loss = poisoned(&net, step % 5, step as f32 / 8.0).0;
            net = stepped(&mut optimizer, 0.05, loss, net);
        }
        save::<B, _>(optimizer.master_model(net))
    }
    let expected = trained(Masters::F32);
    assert!(trained(Masters::Split) == expected);
    assert!(trained(Masters::None) != expected);
}
