use std::io::Read;

use super::*;

fn image(dir: &Path) -> Image {
    let program = dir.join("pause");
    std::fs::write(&program, vec![7_u8; 1000]).unwrap();
    Image {
        reference: "registry.k8s.io/pause:3.10.2".into(),
        arch: "amd64",
        user: Some("65535:65535"),
        entrypoint: vec!["/pause"],
        entries: BTreeMap::from([
            ("usr/bin/pause".to_owned(), Entry::File(program, 0o755)),
            ("bin/sh".to_owned(), Entry::Link("/bin/busybox".into())),
            ("tmp".to_owned(), Entry::Dir(0o1777)),
            ("etc/passwd".to_owned(), Entry::Text("root\n")),
        ]),
        built_from: String::new(),
    }
}

fn members(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
    tar::Archive::new(archive)
        .entries()
        .unwrap()
        .map(|entry| {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (entry.path().unwrap().to_string_lossy().into_owned(), content)
        })
        .collect()
}

#[test]
fn every_digest_in_the_archive_is_that_of_its_blob() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pause.tar");
    let made = image(dir.path()).write(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(made, (hex(&Sha256::digest(&bytes)), bytes.len() as u64));

    let members = members(&bytes);
    for (name, content) in &members {
        if let Some(digest) = name.strip_prefix("blobs/sha256/") {
            assert_eq!(digest, hex(&Sha256::digest(content)));
        }
    }
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap().replace("sha256:", "blobs/sha256/");
        let content = &members[&digest];
        assert_eq!(descriptor["size"], content.len() as u64);
        content.clone()
    };
    let index: Value = serde_json::from_slice(&members["index.json"]).unwrap();
    let top = &index["manifests"][0];
    assert_eq!(top["annotations"]["io.containerd.image.name"], "registry.k8s.io/pause:3.10.2");
    assert_eq!(top["annotations"]["org.opencontainers.image.ref.name"], "3.10.2");
    let manifest: Value = serde_json::from_slice(&blob(top)).unwrap();
    let config: Value = serde_json::from_slice(&blob(&manifest["config"])).unwrap();
    assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"]);
    assert_eq!(config["config"]["User"], "65535:65535");

    let layer = blob(&manifest["layers"][0]);
    let names: Vec<String> = tar::Archive::new(layer.as_slice())
        .entries()
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let header = entry.header();
            assert_eq!((header.mtime().unwrap(), header.uid().unwrap()), (0, 0));
            format!("{} {:o}", entry.path().unwrap().display(), header.mode().unwrap())
        })
        .collect();
    assert_eq!(
        names,
        [
            "bin/ 755",
            "bin/sh 777",
            "etc/ 755",
            "etc/passwd 644",
            "tmp/ 1777",
            "usr/ 755",
            "usr/bin/ 755",
            "usr/bin/pause 755"
        ]
    );
}

#[test]
fn the_same_files_give_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pause.tar");
    let first = image(dir.path()).write(&path).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(image(dir.path()).write(&path).unwrap(), first);
}
