use super::*;

#[test]
fn sources_that_differ_in_names_of_temporaries_are_one() {
    let source =
        |types, a, b| format!("{types}\nextern \"C\" k() {{ _tmp_{a} = 1; _tmp_{b} = _tmp_{a}; }}");
    let one = normalized(&source("struct A {};\nstruct B {};", 17, 18));
    assert_eq!(
        one,
        normalized(&source("struct B {};\nstruct A {};", 3, 901))
    );
    assert_ne!(
        one,
        normalized(&source("struct B {};\nstruct C {};", 3, 901))
    );
}

#[test]
fn the_compilers_report_is_read() {
    let output = "/a/1.cu 0 209
    ptxas info    : Compiling entry function 'softmax_kernel_f_bf16_n_8' for 'sm_90a'
    ptxas         .     8 bytes stack frame, 24 bytes spill stores, 16 bytes spill loads
    ptxas info    : Used 32 registers, used 0 barriers
/a/2.cu 6 49
    mma.h(55): catastrophic error: cannot open source file
";
    let compiled = parse(output).unwrap();
    let softmax = Compiled {
        entry: "softmax_kernel_f_bf16_n_8".to_owned(),
        failure: None,
        milliseconds: 209,
        registers: 32,
        spilled_bytes: 24,
    };
    assert_eq!(compiled[0], softmax);
    let failure = compiled[1].failure.as_ref().unwrap();
    assert!(failure.contains("catastrophic error"), "{failure}");
    assert!(summary("sm_90a", &compiled).contains("1 failures"));
}
