//! A cable that can be cut: a TCP proxy in front of an sshd.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
pub struct Proxy(Arc<State>);

#[derive(Default)]
struct State {
    port: AtomicU64,
    upstream: AtomicU64,
    budget: AtomicU64,
    sockets: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// A proxy towards a port of the loopback.
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self::default();
        proxy.0.port.store(listener.local_addr().unwrap().port().into(), Ordering::SeqCst);
        proxy.0.upstream.store(port.into(), Ordering::SeqCst);
        proxy.0.budget.store(u64::MAX, Ordering::SeqCst);
        let state = Arc::clone(&proxy.0);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let port = u16::try_from(state.upstream.load(Ordering::SeqCst)).unwrap();
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                state.sockets.lock().unwrap().extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                let (to, from) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                let pump_state = Arc::clone(&state);
                std::thread::spawn(move || pump(from, to, Some(&pump_state)));
                std::thread::spawn(move || pump(server, client, None));
            }
        });
        proxy
    }

    pub fn port(&self) -> u16 {
        u16::try_from(self.0.port.load(Ordering::SeqCst)).unwrap()
    }

    /// Where later connections go.
    pub fn switch(&self, port: u16) {
        self.0.upstream.store(port.into(), Ordering::SeqCst);
    }

    /// Cuts all connections now.
    pub fn cut(&self) {
        for socket in self.0.sockets.lock().unwrap().drain(..) {
            drop(socket.shutdown(Shutdown::Both));
        }
    }

    /// Cuts a connection when this many bytes (of all connections) went to the server; `u64::MAX` for never.
    pub fn cut_after(&self, bytes: u64) {
        self.0.budget.store(bytes, Ordering::SeqCst);
    }
}

fn pump(mut from: TcpStream, mut to: TcpStream, counted: Option<&State>) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(read) = from.read(&mut buffer) {
        if read == 0 {
            break;
        }
        if let Some(state) = counted {
            let left = state.budget.load(Ordering::SeqCst);
            if left < read as u64 {
                break;
            }
            if left != u64::MAX {
                state.budget.store(left - read as u64, Ordering::SeqCst);
            }
        }
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    drop(from.shutdown(Shutdown::Both));
    drop(to.shutdown(Shutdown::Both));
}
