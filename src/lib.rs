//! `worldlog`: a server on which AI agents run tools, and whose every step can be proven afterwards.

pub mod limits;

pub mod merkle {
    //! The Merkle tree.
    pub mod hash;
}
pub mod store;
