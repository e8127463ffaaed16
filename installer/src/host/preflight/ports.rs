//! The TCP ports that nodes listen on.

use crate::fleet::model::Role;

/// The API server.
pub const API_SERVER: u16 = 6443;
/// The kubelet.
pub const KUBELET: u16 = 10250;
/// etcd, for clients and for its peers.
pub const ETCD: [u16; 2] = [2379, 2380];
const CONTROLLER_MANAGER: u16 = 10257;
const SCHEDULER: u16 = 10259;

/// All that a host of these roles must have free.
pub fn needed(roles: &[Role]) -> Vec<u16> {
    let mut ports = vec![KUBELET];
    if roles.contains(&Role::ControlPlane) {
        ports.extend([API_SERVER, CONTROLLER_MANAGER, SCHEDULER]);
        ports.extend(ETCD);
    }
    ports
}

/// Those of a host with the roles `to` that a host with the roles `from` connects to.
pub fn between(from: &[Role], to: &[Role]) -> Vec<u16> {
    let control_plane = |roles: &[Role]| roles.contains(&Role::ControlPlane);
    let mut ports = vec![KUBELET];
    if control_plane(to) {
        ports.push(API_SERVER);
        if control_plane(from) {
            ports.extend(ETCD);
        }
    }
    ports
}
