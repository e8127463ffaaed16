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
