//! Mesa's software Vulkan driver, lavapipe, on which CubeCL's kernels run without a GPU.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, bail};

use crate::workspace;

/// The folders in which Linux systems keep the manifests of Vulkan drivers.
const DRIVER_FOLDERS: &[&str] = &["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d"];

/// The Debian packages with the driver and the loader.
const PACKAGES: &[&str] = &["mesa-vulkan-drivers", "libvulkan1"];

/// Finds the manifest of the software driver; prefers the one for this machine's architecture.
pub fn driver() -> Option<PathBuf> {
    DRIVER_FOLDERS
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| is_software_driver(path))
        .max_by_key(|path| path.to_string_lossy().contains(env::consts::ARCH))
}

/// Installs the driver if apt can do so without asking for a password, and says so first.
pub fn install() -> Result<()> {
    if !Path::new("/etc/debian_version").exists() {
        bail!("not a Debian system; install Mesa's lavapipe driver by hand");
    }
    let Some(apt) = apt() else {
        bail!("not root; run `apt-get install {}`", PACKAGES.join(" "));
    };
    println!(
        "installing the system packages {} with apt-get, which may upgrade packages that they need; to prevent it, \
         leave out the step: `cargo xtask test --only ...`",
        PACKAGES.join(" and ")
    );
    workspace::run(apt().arg("update"))?;
    workspace::run(
        apt()
            .args(["install", "-y", "--no-install-recommends"])
            .args(PACKAGES),
    )
}

/// Sets the variables under which the Vulkan loader offers only `driver` to the command.
pub fn force(command: &mut Command, driver: &Path) {
    // The second name is for loaders before 1.3.207.
    command
        .env("VK_DRIVER_FILES", driver)
        .env("VK_ICD_FILENAMES", driver);
}

/// Whether a missing driver is a failure, as in continuous integration, which must not skip suites silently.
pub fn required() -> bool {
    env::var("CI").is_ok_and(|ci| ci == "true")
}

/// Returns a function that makes `apt-get` commands, if this user is root or may use `sudo` without a password.
fn apt() -> Option<fn() -> Command> {
    let is_root = Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|user| user.stdout.trim_ascii() == b"0");
    if is_root {
        return Some(|| {
            let mut apt = Command::new("apt-get");
            apt.arg("-qq").env("DEBIAN_FRONTEND", "noninteractive");
            apt
        });
    }
    let sudo = || {
        let mut sudo = Command::new("sudo");
        // sudo drops environment variables, so `env` sets this one.
        sudo.args(["--non-interactive", "env", "DEBIAN_FRONTEND=noninteractive"]);
        sudo.args(["apt-get", "-qq"]);
        sudo
    };
    workspace::succeeds(sudo().arg("--version")).then_some(sudo)
}

/// Whether the file is named `lvp_icd.json`, or with an architecture, `lvp_icd.x86_64.json`.
fn is_software_driver(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("lvp_icd") && name.ends_with(".json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lavapipe_is_distinguished_from_other_drivers() {
        assert!(is_software_driver(Path::new("/a/lvp_icd.x86_64.json")));
        assert!(is_software_driver(Path::new("/a/lvp_icd.json")));
        assert!(!is_software_driver(Path::new("/a/intel_icd.x86_64.json")));
        assert!(!is_software_driver(Path::new("/a/lvp_icd.json.bak")));
    }

    #[test]
    fn the_loader_sees_one_driver_only() {
        let mut command = Command::new("true");
        force(&mut command, Path::new("/a/lvp_icd.json"));
        assert_eq!(command.get_envs().count(), 2);
    }
}
