//! Temporary.
mod jobs {
    mod sql;
}
