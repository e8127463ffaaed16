//! Release files and images.

use std::process::Command;

use super::*;
use crate::artifacts::Format;
use crate::engine::wanted::sha256;

fn artifact(name: &str, path: &std::path::Path, format: Format) -> ArtifactRef {
    let bytes = std::fs::read(path).unwrap();
    ArtifactRef { name: name.into(), sha256: sha256(&bytes), size: Some(bytes.len() as u64), format }
}

#[tokio::test]
async fn files_are_installed_once_and_again_only_when_somebody_changed_them() {
    let Some(host) = Sandbox::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (plain, tar) = (dir.path().join("kubelet"), dir.path().join("cni.tgz"));
    std::fs::write(&plain, "kubelet one").unwrap();
    for name in ["bridge", "ptp"] {
        std::fs::write(dir.path().join(name), name).unwrap();
    }
    let packed = Command::new("tar").args(["-czf", "cni.tgz", "./bridge", "./ptp"]).current_dir(&dir).status();
    assert!(packed.unwrap().success());
    let files = Files(vec![
        (artifact("kubelet", &plain, Format::Plain), plain.clone()),
        (artifact("cni", &tar, Format::TarGz), tar.clone()),
    ]);
    let mut phase = phase(
        r"
  - {id: kubelet, title: Kubelet, artifact: {name: kubelet, install: [{to: /srv/bin/kubelet}]}}
  - {id: cni, title: CNI, artifact: {name: cni, install: [{from: bridge, to: /srv/cni/bridge}, {from: ./ptp, to: /srv/cni/ptp}]}}
",
    );
    for (step, (artifact, _)) in phase.steps.iter_mut().zip(&files.0) {
        step.artifact = Some(artifact.clone());
    }
    host.write("/srv/bin/kubelet", "somebody else's", 0o755);
    assert_eq!(
        summary(&plan(&host, &phase).await),
        [
            "~ /srv/bin/kubelet: not ours -> kubelet",
            "+ install cni: /srv/cni/bridge (0755)",
            "+ install cni: /srv/cni/ptp (0755)"
        ]
    );
    let (events, cancel) = (Events::none(), Cancel::never());
    apply_with(&host, &phase, &events, &cancel, &files).await.unwrap();
    assert_eq!(host.read("/srv/cni/ptp"), "ptp");
    assert_eq!(host.sh("ls /var/lib/hostspan/cache 2>/dev/null || true").await, "", "uploads are removed");
    assert_eq!(summary(&plan(&host, &phase).await), [""; 0]);

    host.sh("echo x >>/srv/cni/ptp; chmod 700 /srv/cni/bridge").await;
    assert_eq!(
        summary(&plan(&host, &phase).await),
        [
            "~ /srv/cni/bridge: changed since it was installed -> cni",
            "~ /srv/cni/ptp: changed since it was installed -> cni"
        ]
    );
    apply_with(&host, &phase, &events, &cancel, &files).await.unwrap();
    assert_eq!(host.read("/srv/cni/ptp"), "ptp");
    undo(&host, &events, &cancel).await.unwrap();
    assert_eq!(host.sh("cat /srv/bin/kubelet; ls -d /srv/cni 2>/dev/null || true").await, "somebody else's\n");
}

#[tokio::test]
async fn a_missing_member_and_a_missing_artifact_are_told_plainly() {
    let Some(host) = Sandbox::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let tar = dir.path().join("a.tar");
    std::fs::write(dir.path().join("in"), "x").unwrap();
    assert!(Command::new("tar").args(["-cf", "a.tar", "in"]).current_dir(&dir).status().unwrap().success());
    let files = Files(vec![(artifact("a", &tar, Format::Tar), tar.clone())]);
    let mut phase = phase("  - {id: a, title: A, artifact: {name: a, install: [{from: out, to: /srv/out}]}}\n");
    phase.steps[0].artifact = Some(files.0[0].0.clone());
    let (events, cancel) = (Events::none(), Cancel::never());
    let error = apply_with(&host, &phase, &events, &cancel, &files).await.unwrap_err().to_string();
    assert!(error.ends_with("there is no file out in the archive"), "{error}");
    let error = apply(&host, &phase).await.unwrap_err().to_string();
    assert_eq!(error, "sandbox: a, which the step t/a needs, could not be fetched: no such artifact");
}

/// A containerd that keeps what it imports in one file, and a blob for each.
const CTR: &str = r#"#!/bin/sh
B=/var/lib/hostspan/containerd/io.containerd.content.v1.content/blobs/sha256
D=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
shift 2
case "$4" in
  import) mkdir -p $B; touch $B/$D; echo imported ;;
  ls) echo "REF TYPE DIGEST"; [ -e $B/$D ] && echo "${5#name==} application/x sha256:$D 1 KiB" ;;
esac
"#;

#[tokio::test]
async fn an_image_that_was_collected_is_imported_again() {
    let Some(host) = Sandbox::new() else { return };
    host.write("/usr/local/lib/hostspan/ctr", CTR, 0o755);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pause.tar");
    std::fs::write(&file, "image").unwrap();
    let files = Files(vec![(artifact("image:r.test/pause:1", &file, Format::Tar), file.clone())]);
    let mut phase = phase("  - {id: p, title: P, artifact: {name: 'image:r.test/pause:1', importImage: true}}\n");
    phase.steps[0].artifact = Some(files.0[0].0.clone());
    let (events, cancel) = (Events::none(), Cancel::never());
    assert_eq!(apply_with(&host, &phase, &events, &cancel, &files).await.unwrap().changed, 1);
    assert_eq!(summary(&plan(&host, &phase).await), [""; 0]);
    host.sh("rm /var/lib/hostspan/containerd/io.containerd.content.v1.content/blobs/sha256/*").await;
    assert_eq!(summary(&plan(&host, &phase).await), ["+ import image:r.test/pause:1"]);
}
