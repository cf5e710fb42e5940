//! The ledger of requests in flight as text tables: `ask` and `ask unordered` begin a request (numbered from 0),
//! `answer 2` answers one, `watermark 5` and `idle` are held behind them; `due = …` is all whose turn has come, `held
//! = …` what a snapshot keeps.

use flott_core::{Request, RequestOrder, Timestamp};
use flott_runtime::requests::{Due, Held, Ledger};

use crate::gate::{rows, values};

fn request(number: i64, order: RequestOrder) -> Request {
    Request { payload: rows([number]), future: Box::pin(async { Ok(rows([])) }), order }
}

fn due_text(due: Due) -> String {
    match due {
        Due::Response(_, response) => {
            let answer = values(&response.answer.unwrap())[0];
            format!("{} answered {answer}", values(&response.payload)[0])
        }
        Due::Watermark(at) => format!("watermark {at}"),
        Due::Idle(idle) => format!("idle {idle}"),
    }
}

fn held_text(held: Held) -> String {
    match held {
        Held::Request(_, payload) => values(&payload)[0].to_string(),
        Held::Watermark(at) => format!("watermark {at}"),
        Held::Idle(idle) => format!("idle {idle}"),
    }
}

#[track_caller]
fn check(table: &str) {
    let mut ledger = Ledger::default();
    let mut asked = 0;
    for (number, line) in table.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty()) {
        if let Some((what, expected)) = line.split_once('=') {
            let found: Vec<_> = match what.trim() {
                "due" => std::iter::from_fn(|| ledger.take()).map(due_text).collect(),
                _ => ledger.held().map(held_text).collect(),
            };
            assert_eq!(found.join("; "), expected.trim(), "line {} of the table: {line}", number + 1);
            assert!(!ledger.is_due() || what.trim() == "held");
            continue;
        }
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["ask"] => asked = ledger.add(0, &request(asked, RequestOrder::Ordered)) as i64 + 1,
            ["ask", "unordered"] => asked = ledger.add(0, &request(asked, RequestOrder::Unordered)) as i64 + 1,
            // A request is answered with ten times its number.
            ["answer", of] => ledger.answer(of.parse().unwrap(), Ok(rows([of.parse::<i64>().unwrap() * 10]))),
            ["watermark", at] => ledger.hold_watermark(Timestamp(at.parse().unwrap())),
            ["idle"] => ledger.hold_idle(true),
            _ => panic!("cannot follow '{line}'"),
        }
    }
}

#[test]
fn ordered_answers_come_as_asked() {
    check(
        "ask
        ask
        ask
        answer 2
        answer 1
        due =
        held = 0; 1; 2
        answer 0
        due = 0 answered 0; 1 answered 10; 2 answered 20
        held =",
    );
}

#[test]
fn unordered_answers_come_as_they_arrive() {
    check(
        "ask unordered
        ask unordered
        ask unordered
        answer 2
        due = 2 answered 20
        held = 0; 1
        answer 1
        answer 0
        due = 0 answered 0; 1 answered 10",
    );
}

#[test]
fn no_watermark_overtakes_a_request_and_no_answer_overtakes_a_watermark() {
    for order in ["", " unordered"] {
        check(&format!(
            "ask{order}
            watermark 5
            ask{order}
            idle
            answer 1
            due =
            held = 0; watermark 5; 1; idle true
            answer 0
            due = 0 answered 0; watermark 5; 1 answered 10; idle true"
        ));
    }
}

#[test]
fn an_ordered_request_holds_unordered_ones_behind_it() {
    check(
        "ask unordered
        ask
        ask unordered
        answer 2
        due =
        answer 1
        due =
        answer 0
        due = 0 answered 0; 1 answered 10; 2 answered 20",
    );
}

#[test]
fn an_answer_to_nothing_is_dropped() {
    check(
        "ask
        answer 7
        due =
        answer 0
        due = 0 answered 0
        answer 0
        due =",
    );
}

#[test]
fn answered_but_not_handed_over_is_asked_again_after_a_restore() {
    check(
        "ask
        ask
        answer 1
        held = 0; 1",
    );
}

#[test]
fn of_events_in_a_row_only_what_a_reader_needs_is_held() {
    check(
        "ask
        watermark 3
        idle
        watermark 5
        held = 0; watermark 5
        idle
        idle
        held = 0; watermark 5; idle true
        ask
        watermark 7
        watermark 6
        held = 0; watermark 5; idle true; 1; watermark 7
        answer 1
        answer 0
        due = 0 answered 0; watermark 5; idle true; 1 answered 10; watermark 7",
    );
}
