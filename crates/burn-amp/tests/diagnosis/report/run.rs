//! The report that a configuration asks for.

use super::*;

/// A run of a program in a process of its own, which `[report]` asks for a report.
#[test]
fn a_run_writes_the_report_that_its_configuration_asks_for() {
    const TRAIN: &str = "BURN_AMP_TEST_TRAINS";

    if env::var_os(TRAIN).is_some() {
        policy!(FromVariables, {
            // The variable of this test is none of burn-amp's.
            let variables = env::vars().filter(|(name, _)| name != TRAIN);
            let folder = env::current_dir().unwrap();
            Config::load_from(&folder, variables)?
        });
        let mut step = step::<FromVariables>();
        (0..6).for_each(|_| step());
        return;
    }
    let folder = env::temp_dir().join(format!("burn-amp-report-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let output = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "report::run::a_run_writes_the_report_that_its_configuration_asks_for",
            "--nocapture",
        ])
        .envs([
            (TRAIN, "1"),
            ("BURN_AMP_COMPUTE", "bf16"),
            ("BURN_AMP_REPORT_STEPS", "4"),
            ("BURN_AMP_REPORT_OUTPUT", "run"),
        ])
        .current_dir(&folder)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    says(&said, "Precision report: 4 steps of preset o1 in bf16");
    let read = |ending: &str| fs::read_to_string(folder.join(format!("run.{ending}"))).unwrap();
    let report = Report::from_json(&read("json")).unwrap();
    assert_eq!(report.steps, 4);
    let products: u64 = of(&report, "linear").iter().map(|calls| calls.count).sum();
    assert_eq!(products, 12);
    assert_eq!(read("txt"), report.snapshot());
    assert_eq!(read("html"), report.to_html());
    fs::remove_dir_all(&folder).unwrap();
}
