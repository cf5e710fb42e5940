//! `#[derive(Record)]`: maps a struct to Arrow columns. The trait and what the generated code calls live in
//! `flott-datastream`'s module `record`; users meet this macro through that crate or through `flott`.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{
    Data, DeriveInput, Error, Fields, Index, LitStr, Member, Path, Result, Type, parse_macro_input, parse_quote,
};

/// Implements `Record` for a struct whose fields are column types.
///
/// Named fields give their names to the columns, those of a tuple struct are `f0`, `f1` …; `#[record(rename = "x")]`
/// on a field gives another. `#[record(crate = path)]` on the struct says where `flott_datastream` is, if not there.
#[proc_macro_derive(Record, attributes(record))]
pub fn derive_record(input: TokenStream) -> TokenStream {
    derive(&parse_macro_input!(input as DeriveInput), parse_quote!(::flott_datastream))
}

/// The same for users of the façade crate, which re-exports it as `flott::Record`.
#[proc_macro_derive(FacadeRecord, attributes(record))]
pub fn derive_facade_record(input: TokenStream) -> TokenStream {
    derive(&parse_macro_input!(input as DeriveInput), parse_quote!(::flott))
}

fn derive(input: &DeriveInput, home: Path) -> TokenStream {
    expand(input, home).unwrap_or_else(|error| error.to_compile_error()).into()
}

struct Column<'a> {
    member: Member,
    name: String,
    value: &'a Type,
}

fn expand(input: &DeriveInput, home: Path) -> Result<Tokens> {
    if !input.generics.params.is_empty() {
        return Err(Error::new(input.generics.span(), "a record has no generic parameters: its columns must be known"));
    }
    let home = crate_path(input, home)?;
    let columns = columns(input)?;
    let record = quote!(#home::record);
    let name = &input.ident;
    let slots: Vec<_> = (0..columns.len()).map(|i| format_ident!("c{i}")).collect();
    let members: Vec<_> = columns.iter().map(|c| &c.member).collect();
    let names: Vec<_> = columns.iter().map(|c| &c.name).collect();
    let values: Vec<_> = columns.iter().map(|c| c.value).collect();
    let indices = 0..columns.len();
    Ok(quote! {
        const _: () = {
            #[doc(hidden)]
            #[derive(Default)]
            pub struct Builder { #(#slots: <#values as #record::Value>::Builder),* }

            #[doc(hidden)]
            pub struct Reader { #(#slots: <#values as #record::Value>::Reader),* }

            #[automatically_derived]
            impl #record::Record for #name {
                type Builder = Builder;
                type Reader = Reader;

                fn fields() -> ::std::vec::Vec<#record::Field> {
                    ::std::vec![#(#record::field::<#values>(#names)),*]
                }

                fn reader(columns: &[#record::ArrayRef]) -> #record::RecordResult<Reader> {
                    ::std::result::Result::Ok(Reader {
                        #(#slots: #record::column::<#values>(columns, #indices, #names)?),*
                    })
                }

                fn write(&self, out: &mut ::std::vec::Vec<u8>) {
                    #(#record::Value::write(&self.#members, out);)*
                }

                fn read(bytes: &mut &[u8]) -> #record::RecordResult<Self> {
                    ::std::result::Result::Ok(#name { #(#members: <#values as #record::Value>::read(bytes)?),* })
                }
            }

            #[automatically_derived]
            impl #record::RecordBuilder<#name> for Builder {
                fn reserve(&mut self, rows: usize) {
                    #(#record::ColumnBuilder::<#values>::reserve(&mut self.#slots, rows);)*
                }

                #[inline]
                fn append(&mut self, row: &#name) {
                    #(#record::ColumnBuilder::append(&mut self.#slots, &row.#members);)*
                }

                fn extend(&mut self, rows: &[#name]) {
                    #(#record::ColumnBuilder::extend(&mut self.#slots, rows.iter().map(|row| &row.#members));)*
                }

                fn finish(&mut self, out: &mut ::std::vec::Vec<#record::ArrayRef>) {
                    #(out.push(#record::ColumnBuilder::<#values>::finish(&mut self.#slots));)*
                }
            }

            #[automatically_derived]
            impl #record::RecordReader<#name> for Reader {
                #[inline]
                fn get(&self, row: usize) -> #name {
                    #name { #(#members: #record::ColumnReader::get(&self.#slots, row)),* }
                }
            }
        };
    })
}

fn columns(input: &DeriveInput) -> Result<Vec<Column<'_>>> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(
            input.ident.span(),
            "only a struct can be a record: its columns are the struct's fields",
        ));
    };
    if matches!(data.fields, Fields::Unit) || data.fields.is_empty() {
        return Err(Error::new(input.ident.span(), "a record needs at least one field: a row has columns"));
    }
    let mut columns = Vec::new();
    for (index, field) in data.fields.iter().enumerate() {
        let (member, mut name) = match &field.ident {
            Some(ident) => (Member::Named(ident.clone()), ident.to_string()),
            None => (Member::Unnamed(Index::from(index)), format!("f{index}")),
        };
        if let Some(raw) = name.strip_prefix("r#") {
            name = raw.to_owned();
        }
        for attribute in field.attrs.iter().filter(|a| a.path().is_ident("record")) {
            attribute.parse_nested_meta(|meta| {
                if !meta.path.is_ident("rename") {
                    return Err(meta.error("expected `rename = \"column\"`"));
                }
                name = meta.value()?.parse::<LitStr>()?.value();
                Ok(())
            })?;
        }
        if columns.iter().any(|c: &Column<'_>| c.name == name) {
            return Err(Error::new(field.span(), format!("two columns are called `{name}`")));
        }
        if name.starts_with("__key") {
            return Err(Error::new(field.span(), "column names beginning with `__key` belong to flott"));
        }
        columns.push(Column { member, name, value: &field.ty });
    }
    Ok(columns)
}

fn crate_path(input: &DeriveInput, mut home: Path) -> Result<Path> {
    for attribute in input.attrs.iter().filter(|a| a.path().is_ident("record")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("expected `crate = path::of::flott_datastream`"));
            }
            home = meta.value()?.parse()?;
            Ok(())
        })?;
    }
    Ok(home)
}
