//! Errors: whose fault, retried or not, and how they read.

use flott_core::{Error, ErrorDomain};

#[test]
fn texts_and_domains() {
    use ErrorDomain::*;
    let io = |kind| Error::io("open", "bids.csv", &std::io::Error::new(kind, "it said so"));
    let postcard: Error = postcard::from_bytes::<u64>(&[]).unwrap_err().into();
    let arrow: Error = arrow_schema::ArrowError::ComputeError("overflow".into()).into();
    let table = [
        (Error::user("expected a BIGINT, found 'x'"), User, false, "expected a BIGINT, found 'x'"),
        (
            Error::user("bad").at("column", "price").at("line", 7).at("file", "bids.csv"),
            User,
            false,
            "bad (column price, line 7, file bids.csv)",
        ),
        (Error::external("connection reset").at("peer", "tm-1"), External, true, "connection reset (peer tm-1)"),
        (Error::external("damaged").final_(), External, false, "damaged"),
        (Error::internal("lost a slot"), Internal, false, "lost a slot; this is a fault of flott, please report it"),
        (io(std::io::ErrorKind::NotFound), User, false, "cannot open: it said so (file bids.csv)"),
        (io(std::io::ErrorKind::PermissionDenied), User, false, "cannot open: it said so (file bids.csv)"),
        (io(std::io::ErrorKind::NotADirectory), User, false, "cannot open: it said so (file bids.csv)"),
        (io(std::io::ErrorKind::AlreadyExists), User, false, "cannot open: it said so (file bids.csv)"),
        (io(std::io::ErrorKind::TimedOut), External, true, "cannot open: it said so (file bids.csv)"),
        (arrow, User, false, "Compute error: overflow"),
        (
            postcard,
            Internal,
            false,
            "cannot decode stored bytes: Hit the end of buffer, expected more data; this is a fault of flott, please \
             report it",
        ),
    ];
    for (error, domain, retryable, text) in table {
        assert_eq!((error.domain(), error.is_retryable(), error.to_string().as_str()), (domain, retryable, text));
    }
}

#[test]
fn an_error_arrives_whole_in_another_process() {
    let error = Error::external("no answer").at("operator", "join").at("task", 3).final_();
    let back: Error = postcard::from_bytes(&postcard::to_stdvec(&error).unwrap()).unwrap();
    assert_eq!(back, error);
    assert_eq!((back.message(), back.place("task"), back.place("line")), ("no answer", Some("3"), None));
    assert_eq!(format!("{back:?}"), "External error: no answer (operator join, task 3)");
}
