//! `worldlog`: a server on which AI agents run tools, and whose every step can be proven afterwards.

pub mod limits;

pub mod canon;
pub mod event;
pub mod merkle {
    //! The Merkle tree.
    pub mod hash;
    pub mod map {
        //! stub
        use super::hash::Hash;
        #[derive(Debug, Clone, Default)]
        pub struct Map;
        impl Map { pub fn new()->Self{Self} pub fn insert(&mut self,_:Hash,_:Hash){} pub fn remove(&mut self,_:&Hash){} pub fn root(&mut self)->Hash{[0;32]} }
    }
}
pub mod state;
