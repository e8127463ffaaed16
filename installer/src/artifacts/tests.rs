use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use super::download::Download;
use super::verified::hex;
use super::*;
use crate::progress::Event;
use sha2::{Digest, Sha256};

/// What the server does with one request.
#[derive(Clone)]
enum Answer {
    /// The whole body, or its rest from where the client wants it.
    Body,
    /// Promises the whole body, sends that many bytes and closes the connection.
    CutAfter(usize),
    /// Sends the whole body whatever range was asked for.
    WithoutRanges,
    Status(u16),
}

struct Server {
    url: String,
    ranges: Arc<Mutex<Vec<Option<usize>>>>,
}

/// Answers one request with each of `answers`, on loopback.
fn serve(body: &[u8], answers: Vec<Answer>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/file", listener.local_addr().unwrap());
    let ranges = Arc::new(Mutex::new(Vec::new()));
    let (body, seen) = (body.to_vec(), Arc::clone(&ranges));
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut range = None;
            for line in BufReader::new(stream.try_clone().unwrap()).lines() {
                let line = line.unwrap().to_lowercase();
                if let Some(from) = line.strip_prefix("range: bytes=") {
                    range = Some(from.trim_end_matches('-').parse::<usize>().unwrap());
                }
                if line.is_empty() {
                    break;
                }
            }
            seen.lock().unwrap().push(range);
            let from = if matches!(answer, Answer::WithoutRanges) { 0 } else { range.unwrap_or(0) };
            let rest = &body[from..];
            let head = match (&answer, from) {
                (Answer::Status(status), _) => format!("HTTP/1.1 {status} No\r\nContent-Length: 0\r\n"),
                (_, 0) => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n", rest.len()),
                (_, from) => format!(
                    "HTTP/1.1 206 Partial\r\nContent-Range: bytes {from}-{}/{}\r\nContent-Length: {}\r\n",
                    body.len() - 1,
                    body.len(),
                    rest.len()
                ),
            };
            let sent = match answer {
                Answer::CutAfter(count) => &rest[..count],
                Answer::Status(_) => &[],
                _ => rest,
            };
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(b"Connection: close\r\n\r\n").unwrap();
            stream.write_all(sent).unwrap();
        }
    });
    Server { url, ranges }
}

fn body() -> Vec<u8> {
    (0..300_000_u32).flat_map(u32::to_le_bytes).collect()
}

fn artifact_of(body: &[u8]) -> ArtifactRef {
    ArtifactRef { name: "kubelet".into(), sha256: hex(&Sha256::digest(body)), size: None, format: Format::Plain }
}

async fn download(url: &str, artifact: &ArtifactRef, cache: &Path, events: &Events) -> Result<PathBuf, ArtifactError> {
    // The second test of this process finds it installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = super::download::client(None)?;
    Download { client: &client, url, artifact, cache, events }.run().await
}

#[tokio::test]
async fn downloads_once_and_tells_how_far_it_is() {
    let (cache, body) = (tempfile::tempdir().unwrap(), body());
    let server = serve(&body, vec![Answer::Body]);
    let (events, mut received) = Events::channel();
    let path = download(&server.url, &artifact_of(&body), cache.path(), &events).await.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), body);
    let again = download(&server.url, &artifact_of(&body), cache.path(), &events).await.unwrap();
    assert_eq!(again, path);
    assert_eq!(server.ranges.lock().unwrap().len(), 1, "the second time must not ask the server");
    drop(events);
    let mut last = None;
    while let Some(event) = received.recv().await {
        last = Some(event);
    }
    let size = body.len() as u64;
    assert_eq!(
        last,
        Some(Event::Bytes { host: "local".into(), what: "kubelet".into(), done: size, total: Some(size) })
    );
}

#[tokio::test]
async fn resumes_a_download_that_was_cut() {
    let (cache, body) = (tempfile::tempdir().unwrap(), body());
    let server = serve(&body, vec![Answer::CutAfter(500_000), Answer::Body]);
    let path = download(&server.url, &artifact_of(&body), cache.path(), &Events::none()).await.unwrap();
    assert_eq!(std::fs::read(path).unwrap(), body);
    assert_eq!(*server.ranges.lock().unwrap(), [None, Some(500_000)]);
}

#[tokio::test]
async fn resumes_what_a_killed_run_left_even_if_that_is_damaged() {
    let (cache, body) = (tempfile::tempdir().unwrap(), body());
    let artifact = artifact_of(&body);
    let part = cache.path().join("artifacts").join(format!("{}.part", artifact.sha256));
    std::fs::create_dir_all(part.parent().unwrap()).unwrap();
    std::fs::write(&part, &body[..700_000]).unwrap();
    let server = serve(&body, vec![Answer::Body]);
    download(&server.url, &artifact, cache.path(), &Events::none()).await.unwrap();
    assert_eq!(*server.ranges.lock().unwrap(), [Some(700_000)]);

    let cache = tempfile::tempdir().unwrap();
    let part = cache.path().join("artifacts").join(format!("{}.part", artifact.sha256));
    std::fs::create_dir_all(part.parent().unwrap()).unwrap();
    std::fs::write(&part, vec![0_u8; 700_000]).unwrap();
    let server = serve(&body, vec![Answer::Body, Answer::Body]);
    let path = download(&server.url, &artifact, cache.path(), &Events::none()).await.unwrap();
    assert_eq!(std::fs::read(path).unwrap(), body);
    assert_eq!(*server.ranges.lock().unwrap(), [Some(700_000), None]);
}

#[tokio::test]
async fn starts_again_where_the_server_cannot_resume() {
    let (cache, body) = (tempfile::tempdir().unwrap(), body());
    let server = serve(&body, vec![Answer::CutAfter(500_000), Answer::WithoutRanges]);
    let path = download(&server.url, &artifact_of(&body), cache.path(), &Events::none()).await.unwrap();
    assert_eq!(std::fs::read(path).unwrap(), body);
}

#[tokio::test]
async fn keeps_nothing_of_a_file_with_another_digest() {
    let (cache, body) = (tempfile::tempdir().unwrap(), body());
    let server = serve(b"<html>please log in</html>", vec![Answer::Body]);
    let error = download(&server.url, &artifact_of(&body), cache.path(), &Events::none()).await.unwrap_err();
    assert!(matches!(error, ArtifactError::DownloadDigest { .. }), "{error}");
    assert_eq!(std::fs::read_dir(cache.path().join("artifacts")).unwrap().count(), 0);
}

#[tokio::test]
async fn refuses_a_file_of_another_size_before_reading_it() {
    let (cache, body) = (tempfile::tempdir().unwrap(), body());
    let server = serve(&body, vec![Answer::Body]);
    let artifact = ArtifactRef { size: Some(7), ..artifact_of(&body) };
    let error = download(&server.url, &artifact, cache.path(), &Events::none()).await.unwrap_err();
    assert!(error.to_string().contains("offers 1200000 bytes, but the file has 7"), "{error}");
}

#[tokio::test]
async fn an_answer_of_the_server_is_not_tried_again() {
    let (cache, body) = (tempfile::tempdir().unwrap(), body());
    let server = serve(&body, vec![Answer::Status(404), Answer::Body]);
    let error = download(&server.url, &artifact_of(&body), cache.path(), &Events::none()).await.unwrap_err();
    assert!(error.to_string().contains("answered 404. The file is not there"), "{error}");
    assert_eq!(server.ranges.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn two_at_once_download_once() {
    let (cache, body) = (tempfile::tempdir().unwrap(), body());
    let server = serve(&body, vec![Answer::Body]);
    let artifact = artifact_of(&body);
    let events = Events::none();
    let (first, second) = tokio::join!(
        download(&server.url, &artifact, cache.path(), &events),
        download(&server.url, &artifact, cache.path(), &events)
    );
    assert_eq!(first.unwrap(), second.unwrap());
    assert_eq!(server.ranges.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_mirror_keeps_upstreams_host_and_path() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = serve(b"", vec![Answer::Status(404)]);
    let cache = tempfile::tempdir().unwrap();
    let mut store =
        Store::open(&fleet(serde_json::json!({"source": "mirror", "url": server.url})), Path::new("/")).unwrap();
    store.cache = cache.path().to_owned();
    let kubelet = store.find("kubelet", Some("1.36.3"), "amd64").unwrap();
    let error = store.fetch(&kubelet, &Events::none()).await.unwrap_err().to_string();
    let wanted = format!("{}/dl.k8s.io/release/v1.36.3/bin/linux/amd64/kubelet: the server answered 404", server.url);
    assert!(error.starts_with(&wanted), "{error}");
}

#[tokio::test]
async fn downloads_go_through_the_proxy_of_the_fleet_file() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (cache, body) = (tempfile::tempdir().unwrap(), body());
    let server = serve(&body, vec![Answer::Body]);
    let client = super::download::client(Some(&server.url)).unwrap();
    let (artifact, events) = (artifact_of(&body), Events::none());
    let url = "http://upstream.invalid/kubelet";
    let download = Download { client: &client, url, artifact: &artifact, cache: cache.path(), events: &events };
    assert_eq!(std::fs::read(download.run().await.unwrap()).unwrap(), body);
}

fn fleet(artifacts: serde_json::Value) -> Fleet {
    serde_json::from_value(serde_json::json!({
        "apiVersion": "hostspan.dev/v1alpha1",
        "kind": "Fleet",
        "metadata": {"name": "test"},
        "spec": {"hosts": [], "artifacts": artifacts},
    }))
    .unwrap()
}

fn folder(dir: &Path, content: &[u8]) -> FolderIndex {
    let file = |name: &str, version: Option<&str>| FolderFile {
        name: name.into(),
        version: version.map(Into::into),
        arch: "amd64".into(),
        file: "kubelet".into(),
        sha256: hex(&Sha256::digest(content)),
        size: content.len() as u64,
        format: Format::Plain,
    };
    let index = FolderIndex::new(
        "a test",
        vec![file("kubelet", Some("1.36.3")), file("runc", None), file("image:registry.k8s.io/pause:3.10.2", None)],
    );
    std::fs::write(dir.join("kubelet"), content).unwrap();
    index.write(&dir.join(INDEX_FILE)).unwrap();
    index
}

#[tokio::test]
async fn a_folder_offers_what_its_index_says() {
    let dir = tempfile::tempdir().unwrap();
    let index = folder(dir.path(), b"content");
    assert_eq!(FolderIndex::read(&dir.path().join(INDEX_FILE)).unwrap(), index);
    let cache = tempfile::tempdir().unwrap();
    let mut store = Store::open(&fleet(serde_json::json!({"source": "folder", "path": "."})), dir.path()).unwrap();
    store.cache = cache.path().to_owned();
    let kubelet = store.find("kubelet", Some("1.36.3"), "amd64").unwrap();
    assert_eq!(kubelet.size, Some(7));
    assert_eq!(store.find("runc", Some("1.4.3"), "amd64").unwrap().name, "runc");
    let images: Vec<String> = store.images("amd64").into_iter().map(|image| image.name).collect();
    assert_eq!(images, ["image:registry.k8s.io/pause:3.10.2"]);
    assert!(store.images("arm64").is_empty());

    let path = store.fetch(&kubelet, &Events::none()).await.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"content");
    // Same size and time: it is not read again, so the change goes unseen; that is what makes a second run fast.
    let time = std::fs::metadata(&path).unwrap().modified().unwrap();
    std::fs::write(&path, b"CONTENT").unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    store.fetch(&kubelet, &Events::none()).await.unwrap();
    std::fs::write(&path, b"of another size").unwrap();
    let error = store.fetch(&kubelet, &Events::none()).await.unwrap_err();
    assert!(matches!(error, ArtifactError::Digest { .. }), "{error}");
}

#[test]
fn a_folder_says_what_it_lacks() {
    let dir = tempfile::tempdir().unwrap();
    folder(dir.path(), b"content");
    let store = Store::open(&fleet(serde_json::json!({"source": "folder", "path": "."})), dir.path()).unwrap();
    let error = store.find("kubelet", Some("1.36.4"), "amd64").unwrap_err().to_string();
    assert!(error.contains("it has no kubelet 1.36.4 for amd64 (but 1.36.3); it has image:"), "{error}");
    let error = store.find("etcd", None, "amd64").unwrap_err().to_string();
    assert!(error.contains("it has no etcd for amd64; it has"), "{error}");
}

#[test]
fn index_errors_have_a_place() {
    let parse = |text: &str| FolderIndex::parse(text, Path::new("artifacts.yaml")).unwrap_err().to_string();
    let head = "apiVersion: hostspan.dev/v1alpha1\nkind: ArtifactFolder\n";
    let unknown = parse(&format!("{head}files: []\nfilez: []\n"));
    assert!(unknown.starts_with("artifacts.yaml:4:1: ") && unknown.contains("filez"), "{unknown}");
    let wrong =
        parse(&format!("{head}files:\n  - {{name: a, arch: amd64, file: a, sha256: '0', size: x, format: plain}}\n"));
    assert!(wrong.starts_with("artifacts.yaml:4:"), "{wrong}");
    assert!(parse("apiVersion: v1\nkind: Pod\nfiles: []\n").contains("not an `ArtifactFolder`"));
    assert!(parse("").starts_with("artifacts.yaml:"));
    let digest = format!("{head}files:\n  - {{name: a, arch: amd64, file: a, sha256: AB, size: 1, format: plain}}\n");
    let digest = parse(&digest);
    assert!(digest.starts_with("artifacts.yaml:4:") && digest.contains("64 lower-case hex digits"), "{digest}");
}

#[test]
fn an_index_cannot_point_out_of_its_folder() {
    for file in ["../kubelet", "/etc/passwd", "a/../../b", ""] {
        assert!(matches!(inside(Path::new("/srv"), file), Err(ArtifactError::OutsideFolder { .. })), "{file}");
    }
    assert_eq!(inside(Path::new("/srv"), "images/a.tar").unwrap(), Path::new("/srv/images/a.tar"));
}

#[test]
fn upstream_has_no_digest_for_older_kubernetes_and_the_error_says_what_to_do() {
    let store = Store::open(&fleet(serde_json::json!({})), Path::new("/")).unwrap();
    let kubelet = store.find("kubelet", Some("1.36.3"), "amd64").unwrap();
    assert_eq!(kubelet.sha256, "46707a53209f826ad0f0d62371ac69cd00e78fd9a8176cf5f6f87f18f7f8b718");
    assert!(store.images("amd64").is_empty());
    let error = store.find("kubelet", Some("1.35.2"), "amd64").unwrap_err().to_string();
    assert!(error.contains("kubelet 1.35.2") && error.contains("{source: folder, path: FOLDER}"), "{error}");
}

#[test]
fn settings_that_a_source_needs_are_named() {
    let error = |value| Store::open(&fleet(value), Path::new("/")).unwrap_err().to_string();
    assert!(error(serde_json::json!({"source": "mirror"})).contains("needs spec.artifacts.url"));
    assert!(error(serde_json::json!({"source": "folder"})).contains("needs spec.artifacts.path"));
    let missing = error(serde_json::json!({"source": "folder", "path": "none"}));
    assert!(missing.contains("cannot read the index of the artifact folder /none/artifacts.yaml"), "{missing}");
    assert!(matches!(super::download::client(Some("http://[")), Err(ArtifactError::Proxy)));
}
