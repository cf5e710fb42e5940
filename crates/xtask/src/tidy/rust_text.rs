//! Rust source as the text rules see it: comments, literals and test modules blanked out, lines kept.
//!
//! A lexer of sixty lines and not a parser: tidy must be quick, and must run on files that do not compile.

/// `text` with every comment and every character of a string or character literal replaced by a space.
pub(super) fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = end_of_blank(&chars, at);
        if end == at {
            code.push(chars[at]);
            at += 1;
        } else {
            code.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    code
}

/// Where the comment or literal that starts at `at` ends; `at` itself where none starts.
fn end_of_blank(chars: &[char], at: usize) -> usize {
    let next = chars.get(at + 1).copied();
    match chars[at] {
        '/' if next == Some('/') => find(chars, at, |rest| rest[0] == '\n'),
        '/' if next == Some('*') => end_of_block_comment(chars, at),
        '"' => end_of_string(chars, at),
        'r' if !continues_identifier(chars, at) => end_of_raw_string(chars, at).unwrap_or(at),
        '\'' if next == Some('\\') => find(chars, at + 3, |rest| rest[0] == '\'') + 1,
        '\'' if chars.get(at + 2) == Some(&'\'') => at + 3,
        _ => at,
    }
    .min(chars.len())
}

fn find(chars: &[char], from: usize, holds: impl Fn(&[char]) -> bool) -> usize {
    (from..chars.len()).find(|&i| holds(&chars[i..])).unwrap_or(chars.len())
}

fn end_of_block_comment(chars: &[char], at: usize) -> usize {
    let (mut depth, mut i) = (0, at);
    while i < chars.len() {
        match (chars[i], chars.get(i + 1)) {
            ('/', Some('*')) => (depth, i) = (depth + 1, i + 2),
            ('*', Some('/')) => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            break;
        }
    }
    i
}

fn end_of_string(chars: &[char], at: usize) -> usize {
    let mut i = at + 1;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

/// `r"…"`, `r#"…"#`; `r#name` is an identifier.
fn end_of_raw_string(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
    let open = at + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let closes = |rest: &[char]| rest[0] == '"' && rest[1..].iter().take_while(|c| **c == '#').count() >= hashes;
    Some(find(chars, open + 1, closes) + 1 + hashes)
}

/// Whether the letter at `at` goes on with a name: the `r` of `for`, but not that of `br"…"`.
fn continues_identifier(chars: &[char], at: usize) -> bool {
    let word = chars[..at].iter().rev().take_while(|c| is_word(**c)).collect::<String>();
    !matches!(word.as_str(), "" | "b" | "c")
}

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// `code` (as [`code_only`] gives it) with items under `#[cfg(test)]` blanked out.
pub(super) fn without_test_items(code: &str) -> String {
    const ATTRIBUTE: &str = "#[cfg(test)]";
    let mut kept = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(start) = rest.find(ATTRIBUTE) {
        kept.push_str(&rest[..start]);
        let item = &rest[start..];
        let end = end_of_item(item);
        kept.extend(item[..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = &item[end..];
    }
    kept + rest
}

/// An item ends with a `;` outside braces or with the brace that closes its first one.
fn end_of_item(item: &str) -> usize {
    let mut depth = 0usize;
    for (i, c) in item.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth <= 1 => return i + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return i + 1,
            _ => {}
        }
    }
    item.len()
}

/// Names in code that start a path or are imported: the `a` of `a::b`, `use a;`, `extern crate a`. (line, name)
pub(super) fn path_heads(code: &str) -> Vec<(usize, &str)> {
    let mut heads = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut from = 0;
        while let Some(start) = line[from..].find(is_word).map(|i| from + i) {
            let length = line[start..].find(|c| !is_word(c)).unwrap_or(line.len() - start);
            let (before, after) = (line[..start].trim_end(), &line[start + length..]);
            let continues = before.strip_suffix("::").is_some_and(|owner| owner.ends_with(|c| is_word(c) || c == '>'));
            let opener = before.trim_end_matches("::").trim_end();
            let imported = ends_with_word(opener, "use") || ends_with_word(opener, "extern crate");
            if !continues && (imported || after.starts_with("::")) {
                heads.push((index + 1, &line[start..start + length]));
            }
            from = start + length;
        }
    }
    heads
}

fn ends_with_word(text: &str, word: &str) -> bool {
    text.strip_suffix(word).is_some_and(|before| !before.ends_with(is_word))
}

/// The numbers of the lines of code that hold `word`, not as part of a longer name.
pub(super) fn lines_with<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.lines().enumerate().filter(|(_, line)| contains_word(line, word)).map(|(index, _)| index + 1)
}

pub(super) fn contains_word(line: &str, word: &str) -> bool {
    let starts_inside = |before: &str| word.starts_with(is_word) && before.ends_with(is_word);
    let ends_inside = |after: &str| word.ends_with(is_word) && after.starts_with(is_word);
    line.match_indices(word).any(|(i, _)| !starts_inside(&line[..i]) && !ends_inside(&line[i + word.len()..]))
}
