//! Configuration: what is accepted, what is refused and with which words.

use flott_core::config::{self, Config, Millis};

#[test]
fn defaults_can_be_read() {
    let config = Config::default();
    assert_eq!(config.get(&config::PARALLELISM).unwrap(), 1);
    assert_eq!(config.get(&config::MAX_PARALLELISM).unwrap(), 128);
    assert_eq!(config.get(&config::WATERMARK_INTERVAL).unwrap(), Millis(200));
    assert_eq!(config.get(&config::STATE_BACKEND).unwrap(), "hashmap");
    assert!(config.get(&config::OBJECT_CHAINING).unwrap());
    assert!(!config.is_set(&config::PARALLELISM));
    // Every default is a value that could have been set.
    for (key, default, doc) in config::OPTIONS {
        Config::default().set(key, default).unwrap();
        assert!(!doc.is_empty(), "{key}");
    }
}

#[test]
fn keys_are_unique() {
    let mut keys: Vec<_> = config::OPTIONS.iter().map(|(key, ..)| key).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), config::OPTIONS.len());
}

#[test]
fn what_is_set_is_read() {
    let mut config = Config::default();
    config.set("parallelism.default", " 3 ").unwrap();
    config.set("pipeline.operator-chaining.enabled", "false").unwrap();
    config.set("parallelism.default", "4").unwrap();
    assert_eq!(config.get(&config::PARALLELISM).unwrap(), 4);
    assert!(config.is_set(&config::PARALLELISM));
    assert!(!config.get(&config::OBJECT_CHAINING).unwrap());
    let back: Config = postcard::from_bytes(&postcard::to_stdvec(&config).unwrap()).unwrap();
    assert_eq!(back, config);
}

#[test]
fn refusals() {
    let table = [
        ("paralelism.default", "3", "there is no option 'paralelism.default'; did you mean 'parallelism.default'?"),
        ("nonsense", "3", "there is no option 'nonsense'"),
        ("parallelism.default", "three", "expected a whole number, found 'three' (option parallelism.default)"),
        ("parallelism.default", "-1", "expected a whole number, found '-1' (option parallelism.default)"),
        (
            "pipeline.operator-chaining.enabled",
            "yes",
            "expected true or false, found 'yes' (option pipeline.operator-chaining.enabled)",
        ),
        (
            "pipeline.auto-watermark-interval",
            "2 weeks",
            "expected a time such as '200 ms', '10 s' or '5 min', found '2 weeks' (option \
             pipeline.auto-watermark-interval)",
        ),
    ];
    for (key, value, text) in table {
        let mut config = Config::default();
        assert_eq!(config.set(key, value).unwrap_err().to_string(), text);
        assert_eq!(config, Config::default(), "a refused value is not kept");
    }
}

#[test]
fn times() {
    let table = [
        ("0", Some(0)),
        ("200 ms", Some(200)),
        ("10s", Some(10_000)),
        (" 5 min ", Some(300_000)),
        ("1 h", Some(3_600_000)),
        ("2 d", Some(172_800_000)),
        ("", None),
        ("ms", None),
        ("1.5 s", None),
        ("-1 s", None),
        ("18446744073709551615 d", None),
    ];
    for (text, expected) in table {
        assert_eq!(text.parse::<Millis>().ok(), expected.map(Millis), "'{text}'");
    }
}
