//! The tests of the formats, one binary: tables and properties.
mod formats {
    mod csv_reading;
    mod csv_writing;
    mod lines;
    mod properties;
    mod support;
    mod values;
}
