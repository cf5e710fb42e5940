//! The names of types in messages: [`type_name`], the one place that translates Arrow's words into SQL's.

use arrow_schema::{DataType, TimeUnit};

/// The SQL name of a type, in Flink's dialect; Arrow's where SQL has none.
///
/// ```
/// use arrow_schema::{DataType, TimeUnit};
/// assert_eq!(flott_core::type_name(&DataType::Int64), "BIGINT");
/// assert_eq!(flott_core::type_name(&DataType::Timestamp(TimeUnit::Millisecond, None)), "TIMESTAMP(3)");
/// ```
pub fn type_name(data_type: &DataType) -> String {
    let scale = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    };
    match data_type {
        DataType::Int8 => "TINYINT".into(),
        DataType::Int16 => "SMALLINT".into(),
        DataType::Int32 => "INT".into(),
        DataType::Int64 => "BIGINT".into(),
        DataType::UInt8 => "TINYINT UNSIGNED".into(),
        DataType::UInt16 => "SMALLINT UNSIGNED".into(),
        DataType::UInt32 => "INT UNSIGNED".into(),
        DataType::UInt64 => "BIGINT UNSIGNED".into(),
        DataType::Float32 => "FLOAT".into(),
        DataType::Float64 => "DOUBLE".into(),
        DataType::Boolean => "BOOLEAN".into(),
        DataType::Utf8 => "STRING".into(),
        DataType::Binary => "BYTES".into(),
        DataType::Date32 => "DATE".into(),
        DataType::Time32(TimeUnit::Millisecond) => "TIME(3)".into(),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        DataType::Timestamp(unit, None) => format!("TIMESTAMP({})", scale(unit)),
        DataType::Timestamp(unit, Some(_)) => format!("TIMESTAMP_LTZ({})", scale(unit)),
        other => other.to_string(),
    }
}
