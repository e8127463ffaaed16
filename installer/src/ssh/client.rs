//! Our side of a session as russh calls it back: the host key, the negotiated algorithms, how it ended.

use std::sync::{Arc, Mutex, PoisonError};

use russh::client::{self, ChannelOpenHandle, DisconnectReason, Msg};
use russh::keys::PublicKeyOrCertificate;
use russh::{Channel, Names, cipher};

use super::RemoteErrorKind;
use super::trust::Trust;

/// Whether an error says that the other side went away, rather than that it did something wrong.
pub(super) fn is_loss(error: &russh::Error) -> bool {
    use russh::Error as E;
    matches!(
        error,
        E::IO(_)
            | E::Disconnect
            | E::HUP
            | E::ConnectionTimeout
            | E::KeepaliveTimeout
            | E::InactivityTimeout
            | E::SendError
            | E::RecvError
            | E::Elapsed(_)
            | E::Join(_)
    )
}

/// Why a hop was not taken; the caller adds the host.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) kind: RemoteErrorKind,
    pub(super) message: String,
    pub(super) help: Option<String>,
}

impl Refusal {
    pub(super) fn new(kind: RemoteErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), help: None }
    }

    pub(super) fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

/// What ends a session from our side or russh's.
#[derive(Debug)]
pub(super) enum Failure {
    Refused(Refusal),
    Ssh(russh::Error),
}

impl From<russh::Error> for Failure {
    fn from(error: russh::Error) -> Self {
        Self::Ssh(error)
    }
}

/// What the peer said when it hung up: the only hint at `MaxAuthTries` and the like.
#[derive(Debug, Clone, Default)]
pub(super) struct Farewell(Arc<Mutex<Option<String>>>);

impl Farewell {
    fn set(&self, text: &str) {
        let clean: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(clean);
    }

    pub(super) fn text(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Our side of a session.
pub(super) struct Client {
    pub(super) trust: Trust,
    pub(super) farewell: Farewell,
}

/// A server has no reason to open channels towards us; one that does is not a plain sshd.
fn unasked(_reply: ChannelOpenHandle) -> Result<(), Failure> {
    Err(Failure::Refused(Refusal::new(RemoteErrorKind::Protocol, "the server opened a channel that was not asked for")))
}

impl client::Handler for Client {
    type Error = Failure;

    async fn check_server_key(&mut self, offered: &PublicKeyOrCertificate) -> Result<bool, Failure> {
        self.trust.judge(offered).await.map(|()| true).map_err(Failure::Refused)
    }

    async fn kex_done(
        &mut self,
        _shared_secret: Option<&[u8]>,
        names: &Names,
        _session: &mut client::Session,
    ) -> Result<(), Failure> {
        // Terrapin: without strict key exchange a man in the middle can drop messages from the start of the stream.
        if names.cipher == cipher::CHACHA20_POLY1305 && !names.strict_kex() {
            let message = format!(
                "{} port {} offers ChaCha20-Poly1305 without strict key exchange, which is unsafe",
                self.trust.hop().address,
                self.trust.hop().port
            );
            return Err(Failure::Refused(
                Refusal::new(RemoteErrorKind::Protocol, message)
                    .help("update its sshd (OpenSSH 9.6 or a distribution's fix for CVE-2023-48795), or allow AES-GCM"),
            ));
        }
        Ok(())
    }

    async fn disconnected(&mut self, reason: DisconnectReason<Failure>) -> Result<(), Failure> {
        match reason {
            DisconnectReason::ReceivedDisconnect(info) => {
                self.farewell.set(&info.message);
                Ok(())
            }
            DisconnectReason::Error(error) => Err(error),
        }
    }

    async fn server_channel_open_session(
        &mut self,
        _channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut client::Session,
    ) -> Result<(), Failure> {
        unasked(reply)
    }

    async fn server_channel_open_agent_forward(
        &mut self,
        _channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut client::Session,
    ) -> Result<(), Failure> {
        unasked(reply)
    }

    async fn server_channel_open_forwarded_tcpip(
        &mut self,
        _channel: Channel<Msg>,
        _connected_address: &str,
        _connected_port: u32,
        _originator_address: &str,
        _originator_port: u32,
        reply: ChannelOpenHandle,
        _session: &mut client::Session,
    ) -> Result<(), Failure> {
        unasked(reply)
    }

    async fn server_channel_open_direct_tcpip(
        &mut self,
        _channel: Channel<Msg>,
        _host: &str,
        _port: u32,
        _originator_address: &str,
        _originator_port: u32,
        reply: ChannelOpenHandle,
        _session: &mut client::Session,
    ) -> Result<(), Failure> {
        unasked(reply)
    }

    async fn server_channel_open_forwarded_streamlocal(
        &mut self,
        _channel: Channel<Msg>,
        _socket_path: &str,
        reply: ChannelOpenHandle,
        _session: &mut client::Session,
    ) -> Result<(), Failure> {
        unasked(reply)
    }

    async fn server_channel_open_direct_streamlocal(
        &mut self,
        _channel: Channel<Msg>,
        _socket_path: &str,
        reply: ChannelOpenHandle,
        _session: &mut client::Session,
    ) -> Result<(), Failure> {
        unasked(reply)
    }

    async fn server_channel_open_x11(
        &mut self,
        _channel: Channel<Msg>,
        _originator_address: &str,
        _originator_port: u32,
        reply: ChannelOpenHandle,
        _session: &mut client::Session,
    ) -> Result<(), Failure> {
        unasked(reply)
    }
}
