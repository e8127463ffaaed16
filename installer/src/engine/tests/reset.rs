//! Taking everything back.

use super::*;

#[tokio::test]
async fn reset_brings_back_every_byte() {
    let Some(host) = everything() else { return };
    let phase = phase(EVERYTHING);
    let before = digest(&host).await;
    apply(&host, &phase).await.unwrap();
    // A later run with other wishes must not take its own work for the original.
    let other = super::phase("  - {id: config, title: Config, file: {path: /srv/old/config, content: \"other\\n\"}}\n");
    apply(&host, &other).await.unwrap();
    let listing = undo_plan(&host).await.unwrap();
    assert!(listing.contains(&"~ restore /srv/old/config".to_owned()), "{listing:?}");
    assert!(listing.contains(&"- remove directory /srv/new/deep if it is empty".to_owned()), "{listing:?}");
    assert_eq!(listing.first().unwrap(), "- undo t/init");

    undo(&host, &Events::none(), &Cancel::never()).await.unwrap();
    assert_eq!(digest(&host).await, before);
    assert_eq!(undo_plan(&host).await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn a_reset_that_is_killed_goes_on_where_it_stopped() {
    let Some(first) = everything() else { return };
    let phase = phase(EVERYTHING);
    apply(&first, &phase).await.unwrap();
    first.kill_at(100_000);
    undo(&first, &Events::none(), &Cancel::never()).await.unwrap();
    let commands = first.traced.load(std::sync::atomic::Ordering::SeqCst);
    assert!(commands > 100, "only {commands} commands were traced");
    for part in 1..6 {
        let host = everything().unwrap();
        let before = digest(&host).await;
        apply(&host, &phase).await.unwrap();
        host.kill_at(commands * part / 6);
        undo(&host, &Events::none(), &Cancel::never()).await.unwrap_err();
        undo(&host, &Events::none(), &Cancel::never()).await.unwrap();
        assert_eq!(digest(&host).await, before, "killed at command {} of {commands}", commands * part / 6);
    }
}

#[tokio::test]
async fn what_cannot_be_restored_does_not_stop_the_rest() {
    let Some(host) = Sandbox::new() else { return };
    host.write("/srv/x", "before", 0o644);
    let phase = phase(
        r#"
  - {id: x, title: X, file: {path: /srv/x, content: "after"}}
  - {id: y, title: Y, command: {check: "test -e /srv/y", run: "touch /srv/y", undo: "echo cannot; test -e /srv/can && rm /srv/y"}}
"#,
    );
    apply(&host, &phase).await.unwrap();
    let error = undo(&host, &Events::none(), &Cancel::never()).await.unwrap_err().to_string();
    assert_eq!(error, "sandbox: 1 not restored: command t/y: its undo ended with status 1");
    assert_eq!(host.read("/srv/x"), "before");
    assert_eq!(undo_plan(&host).await.unwrap(), ["- undo t/y"]);
    host.write("/srv/can", "", 0o644);
    undo(&host, &Events::none(), &Cancel::never()).await.unwrap();
    assert_eq!(host.sh("ls -d /srv/y /var/lib/hostspan 2>/dev/null || true").await, "");
}
