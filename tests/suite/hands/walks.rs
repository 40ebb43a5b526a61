//! Listing and searching.
