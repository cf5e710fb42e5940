//! What a mistake reads like: whose it is, in which operator, at which record.

use std::sync::Arc;

use flott_datastream::*;

use crate::driver::{Driver, MODES, Mode};

#[derive(Record, Clone, Debug)]
struct Visit {
    user: u64,
    url: Option<String>,
}

fn visits(env: &StreamExecutionEnvironment) -> DataStream<Visit> {
    let url = |text: &str| Some(text.to_owned());
    env.from_collection(vec![Visit { user: 1, url: url("/a") }, Visit { user: 2, url: None }])
}

fn error_of<T: Record>(mode: Mode, program: &impl Fn(&StreamExecutionEnvironment) -> DataStream<T>) -> Error {
    let env = StreamExecutionEnvironment::with_executor(Arc::new(Driver::new(mode)));
    program(&env).collect();
    env.execute("test").unwrap_err()
}

#[test]
fn an_error_names_operator_and_record() {
    let program = |env: &StreamExecutionEnvironment| {
        let found = visits(env).filter(|visit| visit.user > 1);
        found.map(|visit| visit.url.ok_or("a visit without url")).name("Url").map(|url| url.len() as u64)
    };
    let error = error_of(MODES[0], &program);
    assert_eq!(error.to_string(), "a visit without url (row 1, record {user: 2, url: NULL}, operator Url)");
    assert_eq!(error.domain(), flott_core::ErrorDomain::User);
    // Not fused, the function's own input is what it failed on: the row behind the filter.
    let error = error_of(MODES[1], &program);
    assert_eq!(error.to_string(), "a visit without url (row 0, record {user: 2, url: NULL}, operator Url)");
}

#[test]
fn an_error_keeps_its_domain() {
    let error = error_of(MODES[0], &|env| visits(env).map(|_| Err::<u64, _>(Error::external("the disk is full"))));
    assert_eq!(error.domain(), flott_core::ErrorDomain::External);
    assert!(error.is_retryable());
}

#[test]
fn errors_of_keyed_functions() {
    let reduce = error_of(MODES[0], &|env| {
        visits(env).key_by(|_| true).reduce(|a, b| if a.user < b.user { Err("unordered") } else { Ok(a) })
    });
    assert_eq!(reduce.to_string(), "unordered (row 1, record {user: 2, url: NULL}, operator Keyed Reduce)");
    let window = error_of(MODES[0], &|env| {
        visits(env).key_by(|_| true).window(TumblingEventTimeWindows::of(10)).reduce(|a, _| a)
    });
    let expected = "rows have no event time, which windows need: call assign_timestamps_and_watermarks (operator \
                    Tumbling Window)";
    assert_eq!(window.to_string(), expected);
    let request = error_of(MODES[0], &|env| {
        visits(env).async_request(RequestOrder::Unordered, |_| async { Ok::<_, Error>(vec![1_u64]) })
    });
    assert_eq!(request.to_string(), "expected an answer for each of 2 rows, found 1 (operator Async Request)");
}

#[test]
fn mistakes_in_the_program() {
    type Program = fn(&StreamExecutionEnvironment);
    let cases: [(Program, &str); 7] = [
        (|_| {}, "no operators"),
        (|env| drop(visits(env).map(|v| v.user)), "no sink"),
        (
            |env| drop(visits(env).uid("x").map(|v| v.user).uid("x").collect()),
            "'Collection Source' and 'Map' have the same uid",
        ),
        (
            |env| drop(visits(env).union(&visits(env)).uid("x").collect()),
            "a uid belongs to one operator: set it before union",
        ),
        (
            |env| drop(visits(env).key_by(|_| 1_u8).window(TumblingEventTimeWindows::of(0)).reduce(|a, _| a).collect()),
            "expected windows of at least 1 ms, found 0 ms",
        ),
        (|env| _ = env.set("paralelism.default", "1"), "did you mean 'parallelism.default'?"),
        (|env| drop(visits(env).map(|v| v.user).set_parallelism(200).collect()), "parallelism 200 is above"),
    ];
    for (program, expected) in cases {
        let env = StreamExecutionEnvironment::new();
        program(&env);
        let error = env.stream_graph().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let env = StreamExecutionEnvironment::new();
    visits(&env).print();
    assert!(env.execute("test").unwrap_err().to_string().contains("nothing to run jobs with"));
}
