//! Records that are loaded under another policy.

use super::*;

/// Trains for some steps and saves the optimizer's record, to be loaded under another policy.
fn saved<P: ConfigSource>(steps: usize) -> (Net<B>, Vec<u8>) {
    let _policy = enter::<P>();
    let mut optimizer = AmpOptimizer::new(AdamConfig::new()).init();
    let mut net = net::<P>();
    for step in 0..steps {
        let grads = grads(&net, step);
        net = optimizer.step(0.05, net, grads);
    }
    let record = Optimizer::<Net<B>, B>::to_record(&optimizer);
    (net, bytes_of::<B>(record))
}

/// Continues for some steps under `P` from the records that were saved under another policy.
fn resumed<P: ConfigSource>(net: &[u8], record: &[u8]) -> Vec<u8> {
    let _policy = enter::<P>();
    let record = from_bytes::<B, _>(record.to_vec());
    let mut optimizer = AmpOptimizer::new(AdamConfig::new())
        .init::<B, Net<B>>()
        .load_record(record);
    let mut net = cast_params(load::<B, _>(Net::new(&here()), net.to_vec()));
    for step in 11..16 {
        let grads = grads(&net, step);
        net = optimizer.step(0.05, net, grads);
    }
    save::<B, _>(net)
}

#[test]
fn a_record_of_one_policy_loads_under_another() {
    let (waits, waits_record) = saved::<O1Waits>(11);
    let (goes, goes_record) = saved::<O1Goes>(11);
    let (waits, goes) = (save::<B, _>(waits), save::<B, _>(goes));
    assert!(waits == goes);
    // `sync` makes no difference, neither when saving nor when loading.
    let expected = resumed::<O1Waits>(&waits, &waits_record);
    assert!(resumed::<O1Goes>(&waits, &waits_record) == expected);
    assert!(resumed::<O1Waits>(&goes, &goes_record) == expected);

    // Under `o2`, masters start as the rounded parameters, and Adam's moments continue.
    let low = resumed::<O2Waits>(&waits, &waits_record);
    assert!(resumed::<O2Goes>(&goes, &goes_record) == low);
    assert!(low != expected);
}
