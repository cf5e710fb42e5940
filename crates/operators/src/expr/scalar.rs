//! Constants as plain data: [`Scalar`], a value as text beside its type, so that one encoding serves every type.

use arrow_schema::DataType;
use datafusion_common::ScalarValue;
use flott_core::{Error, Result, type_name};
use serde::{Deserialize, Serialize};

/// A typed constant: its text (`None`: NULL) and its type.
///
/// The text is Arrow's: what a cast to a string gives and a cast from a string reads. Bytes are written in hex.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scalar(pub Option<String>, pub DataType);

impl Scalar {
    /// A BIGINT.
    pub fn int64(value: i64) -> Self {
        Self(Some(value.to_string()), DataType::Int64)
    }

    /// A string.
    pub fn string(value: impl Into<String>) -> Self {
        Self(Some(value.into()), DataType::Utf8)
    }

    /// A boolean.
    pub fn boolean(value: bool) -> Self {
        Self(Some(value.to_string()), DataType::Boolean)
    }

    /// The constant that DataFusion holds as `value`.
    pub fn from_datafusion(value: &ScalarValue) -> Result<Self> {
        let data_type = value.data_type();
        if value.is_null() {
            return Ok(Self(None, data_type));
        }
        if let ScalarValue::Binary(Some(bytes)) = value {
            return Ok(Self(Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect()), data_type));
        }
        let unusable =
            |e| Error::user(format!("a constant of type {} cannot be part of a plan: {e}", type_name(&data_type)));
        match value.cast_to(&DataType::Utf8).map_err(|e| unusable(e.strip_backtrace()))? {
            ScalarValue::Utf8(text) => Ok(Self(text, data_type)),
            other => Err(unusable(other.to_string())),
        }
    }

    /// The constant as DataFusion holds it.
    pub fn to_datafusion(&self) -> Result<ScalarValue> {
        let Self(text, data_type) = self;
        let wrong = |e: String| {
            Error::user(format!(
                "expected {}, found '{}': {e}",
                type_name(data_type),
                text.as_deref().unwrap_or("NULL")
            ))
        };
        match text {
            None => ScalarValue::try_from(data_type),
            Some(hex) if *data_type == DataType::Binary => {
                let bytes =
                    (0..hex.len()).step_by(2).map(|i| hex.get(i..i + 2).and_then(|b| u8::from_str_radix(b, 16).ok()));
                let bytes: Option<Vec<u8>> = bytes.collect();
                return bytes.map(|b| ScalarValue::Binary(Some(b))).ok_or_else(|| wrong("not hexadecimal".to_owned()));
            }
            Some(text) => ScalarValue::Utf8(Some(text.clone())).cast_to(data_type),
        }
        .map_err(|e| wrong(e.strip_backtrace()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_come_back_as_they_were() {
        let values = [
            ScalarValue::Boolean(Some(true)),
            ScalarValue::Int8(Some(-128)),
            ScalarValue::Int64(Some(i64::MIN)),
            ScalarValue::Float64(Some(0.1)),
            ScalarValue::Float64(Some(f64::NAN)),
            ScalarValue::Float64(Some(f64::NEG_INFINITY)),
            ScalarValue::Float32(Some(f32::MIN_POSITIVE)),
            ScalarValue::Decimal128(Some(-12_345), 10, 2),
            ScalarValue::Utf8(Some("a'b\u{1F980}".to_owned())),
            ScalarValue::Utf8(Some(String::new())),
            ScalarValue::Binary(Some(vec![0, 255])),
            ScalarValue::Date32(Some(-1)),
            ScalarValue::TimestampMillisecond(Some(-1), None),
            ScalarValue::TimestampMicrosecond(Some(1_700_000_000_000_001), Some("UTC".into())),
            ScalarValue::Time32Millisecond(Some(1)),
            ScalarValue::new_interval_dt(1, -5),
            ScalarValue::new_interval_ym(1, 2),
            ScalarValue::new_interval_mdn(1, -2, 3_000_000),
            ScalarValue::Int64(None),
            ScalarValue::Null,
        ];
        for value in values {
            let scalar = Scalar::from_datafusion(&value).unwrap();
            let json = serde_json::to_string(&scalar).unwrap();
            assert_eq!(serde_json::from_str::<Scalar>(&json).unwrap().to_datafusion().unwrap(), value, "{json}");
        }
        let error = Scalar(Some("x1".to_owned()), DataType::Int64).to_datafusion().unwrap_err();
        assert!(error.to_string().starts_with("expected BIGINT, found 'x1'"), "{error}");
    }
}
