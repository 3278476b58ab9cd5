//! Generated scripts come to the same words here as in bash.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::{Surroundings, run};

/// Numbers that are the same on every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % sides
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }
}

const NAMES: &[&str] = &["A", "B", "C", "LONG_NAME"];
const LISTS: &[&str] = &["L", "M"];
const TEXTS: &[&str] = &[
    "",
    "x",
    "two words",
    "--opt 3",
    "a.b.c",
    "path/to/file.txt",
    "12",
    "7",
    "*",
    "a*b",
    "UPPER lower",
    "é",
    "#x",
    "=",
    "-n",
];
const NUMBERS: &[&str] = &["0", "1", "2", "3", "8", "10", "-4", "0x1f", "017", "2#101"];
const PATTERNS: &[&str] =
    &["*", "?", "a*", "*.*", "[a-c]*", "*[!a]", "x", "*/", "/*", "[[:digit:]]*", "\"*\"", "two*", ".*"];

/// A word without blanks outside quotes.
fn word(dice: &mut Dice, depth: usize) -> String {
    let name = dice.pick(NAMES);
    let list = dice.pick(LISTS);
    let text = dice.pick(TEXTS);
    let pattern = dice.pick(PATTERNS);
    let inner = if depth > 0 { word(dice, depth - 1) } else { "d".to_owned() };
    match dice.roll(38) {
        0 | 1 => format!("${name}"),
        2 => format!("\"${name}\""),
        3 => format!("'{text}'"),
        4 => format!("\"{text}\""),
        5 => format!("${{{name}:-{inner}}}"),
        6 => format!("${{{name}-{inner}}}"),
        7 => format!("\"${{{name}:+{inner}}}\""),
        8 => format!("${{{name}+{inner}}}"),
        9 => format!("${{#{name}}}"),
        10 => format!("\"${{{name}{}{pattern}}}\"", dice.pick(&["#", "##", "%", "%%"])),
        11 => format!(
            "\"${{{name}{}{pattern}/{}}}\"",
            dice.pick(&["/", "//", "/#", "/%"]),
            dice.pick(&["", "y", "zz"])
        ),
        12 => format!("\"${{{name}:{}}}\"", dice.pick(&["0", "1", "3", " -2", "2:1", "1:2"])),
        13 => format!("$(({}))", sum(dice, 2)),
        14 => format!("\"${{{list}[@]}}\""),
        15 => format!("${{{list}[*]}}"),
        16 => format!("\"${{{list}[*]}}\""),
        17 => format!("\"${{{list}[{}]}}\"", dice.pick(&["0", "1", "-1", "K", "$N"])),
        18 => format!("${{#{list}[@]}}"),
        19 => format!("\"${{{list}[@]:{}}}\"", dice.pick(&["0", "1", "0:1", "1:2"])),
        34 => "${L[@]+\"${L[@]}\"}".to_owned(),
        35 => "${M[@]+\"${M[@]}\"}".to_owned(),
        36 => "\"${M[@]:-none}\"".to_owned(),
        20 if !inner.contains('{') => format!("{{{},{inner}}}", dice.pick(&["a", "b", ""])),
        21 => dice.pick(&["{1..4}", "x{a..c}y", "{3..1}", "{1..9..4}", "{01..03}", "{1}", "{"]).to_owned(),
        22 => format!("$(echo {inner})"),
        23 => format!("\"$(echo \"{text}\"; echo $A)\""),
        24 => format!("`echo ${name}`"),
        25 => format!("${{{name}{}}}", dice.pick(&["^", "^^", ",", ",,"])),
        26 => format!("--{}=${name}", dice.pick(&["one", "two"])),
        27 => format!("{}{inner}", dice.pick(&["x", "-y", "${B}"])),
        28 => format!("\"${{{name}}}\"'q'$B"),
        29 => dice
            .pick(&[
                "$'a\\tb'",
                "\\$A",
                "a\\ b",
                "\"\\$A\\\"\"",
                "\"\"",
                "''",
                "$#",
                "\"$@\"",
                "$1",
                "${2:-none}",
            ])
            .to_owned(),
        30 => format!("${{{name}:=${{B:-w}}}}"),
        31 => format!("\"${{!{}}}\"", dice.pick(&["REF", "L[@]"])),
        32 => format!("$(printf '%s-%d' {} {})", dice.pick(&["a", "'b c'"]), dice.pick(&["1", "22"])),
        _ => dice.pick(&["plain", "12", "--flag", "a,b", "k=v", "~x", "[ab]", "a?c"]).to_owned(),
    }
}

fn sum(dice: &mut Dice, depth: usize) -> String {
    if depth == 0 {
        return match dice.roll(4) {
            0 => "N".to_owned(),
            1 => "$N".to_owned(),
            2 => "K".to_owned(),
            _ => dice.pick(NUMBERS).to_owned(),
        };
    }
    let (left, right) = (sum(dice, depth - 1), sum(dice, depth - 1));
    match dice.roll(10) {
        0 => format!("({left} + {right})"),
        1 => format!("{left} * {right}"),
        2 => format!("{left} - ({right})"),
        3 => format!("({left}) / (({right}) * ({right}) + 1)"),
        4 => format!("({left}) % (({right}) * ({right}) + 1)"),
        5 => format!(
            "{left} {} {right}",
            dice.pick(&["==", "!=", "<", ">", "<=", ">=", "&&", "||", "&", "|", "^", "<<1+", ">>2+"])
        ),
        6 => format!("({left} ? {right} : 5)"),
        7 => format!("!({left})"),
        8 => format!("~{left}"),
        _ => format!("{left} ** 2"),
    }
}

fn condition(dice: &mut Dice) -> String {
    let (name, text) = (dice.pick(NAMES), dice.pick(&["x", "12", "a.b.c", ""]));
    match dice.roll(12) {
        0 => format!("[ \"${name}\" = \"{text}\" ]"),
        1 => format!("[ -z \"${name}\" ]"),
        2 => format!("[ -n \"${name}\" -a \"$B\" != \"{text}\" ]"),
        3 => format!("[[ ${name} == {} ]]", dice.pick(PATTERNS)),
        4 => format!("[[ -n ${name} && ! $B == \"{text}\" ]]"),
        5 => format!("[[ ${name} =~ {} ]]", dice.pick(&["^[0-9]+$", "a.*c", "(x|12)$", "^$", "o{1,2}"])),
        6 => format!("(( {} ))", sum(dice, 2)),
        7 => format!("test $N {} {}", dice.pick(&["-eq", "-ne", "-lt", "-ge"]), dice.pick(&["3", "8"])),
        8 => format!("[[ $N -gt {} || -z ${name} ]]", dice.pick(&["1", "K+1"])),
        9 => "! false".to_owned(),
        10 => format!("{} && true", dice.pick(&["true", "false"])),
        _ => format!("[ ! \"${name}\" = x -o 1 = 2 ]"),
    }
}

fn statement(dice: &mut Dice, depth: usize) -> String {
    let name = dice.pick(NAMES);
    let list = dice.pick(LISTS);
    let shallow = depth.saturating_sub(1);
    let inner =
        |dice: &mut Dice| if depth > 0 { statement(dice, shallow) } else { "show $A \"$B\"".to_owned() };
    match dice.roll(30) {
        0..=2 => format!("{name}={}", assigned(dice)),
        3 => format!("{name}+={}", assigned(dice)),
        4 => format!("{list}=({} {})", word(dice, 1), word(dice, 1)),
        5 => format!("{list}+=({})", word(dice, 1)),
        6 => format!("{list}[{}]={}", dice.pick(&["0", "2", "N * N % 3"]), assigned(dice)),
        7 => format!(
            "if {}; then {}\nelif {}; then\n{}\nelse\n{}\nfi",
            condition(dice),
            inner(dice),
            condition(dice),
            inner(dice),
            inner(dice)
        ),
        8 => format!("{} && {} || {}", condition(dice), inner(dice), inner(dice)),
        9 => format!(
            "for I in {} {} {}; do {}; show $I; done",
            word(dice, 1),
            word(dice, 1),
            word(dice, 0),
            inner(dice)
        ),
        10 => format!(
            "K=0; while [ $K -lt 3 ]; do K=$((K + 1)); {}; done",
            dice.pick(&["show k $K", "if ((K == 2)); then continue; fi; show $K", "[[ $K == 2 ]] && break"])
        ),
        11 => format!(
            "case ${name} in {}) {};; {}|x) {} ;; *) {};; esac",
            dice.pick(PATTERNS),
            inner(dice),
            dice.pick(PATTERNS),
            inner(dice),
            inner(dice)
        ),
        12 => format!(
            "f() {{ local A=${{1:-loc}}; show \"$A\" $# \"$@\"; {}; B=in; {}; }}; f {} {}",
            inner(dice),
            dice.pick(&["return 1", ":"]),
            word(dice, 0),
            word(dice, 0)
        ),
        13 => format!(
            "(({} {} {}))",
            dice.pick(&["N", "K"]),
            dice.pick(&["+=", "=", "*=", "-="]),
            dice.pick(&["2", "N + 1", "K ? 3 : 4"])
        ),
        14 => format!("let N={}", dice.pick(&["N+1", "3", "K*2"])),
        15 => format!("for ((I = 0; I < {}; I++)); do show i $I; done", dice.pick(&["0", "2", "3"])),
        16 => format!("( {}; {name}=sub; show ${name} )", inner(dice)),
        17 => format!("{{ {}; }}", inner(dice)),
        18 => format!(
            "cat > /dev/null <<{}\nif then \" ' ${name} `echo x`\n--opt 3\nEOF",
            dice.pick(&["EOF", "'EOF'", "\"EOF\""])
        ),
        19 => format!("set -- {} {}; shift; show $# \"$@\"", word(dice, 0), word(dice, 0)),
        20 => format!("export {name}={}", assigned(dice).replace('{', "\\{")),
        21 => format!("unset {name}"),
        22 => format!(
            "{name}=$(case ${name} in x) echo one;; *) echo {};; esac)",
            dice.pick(&["two", "'a  b'"])
        ),
        23 => format!("eval \"{name}=\\${}\"", dice.pick(NAMES)),
        24 => format!(
            "declare -A MAP=([k]={} [\"two w\"]=v); show \"${{MAP[k]}}\" \"${{#MAP[@]}}\" \"${{MAP[two w]}}\"",
            assigned(dice)
        ),
        25 => format!("IFS={} ; show ${name} ; IFS=$' \\t\\n'", dice.pick(&[".", "/", "','", "': '"])),
        26 => format!("until ((K >= 2)); do ((K++)); done; show $K {}", word(dice, 0)),
        27 => format!("read {name} <<< {}", dice.pick(&["one", "12", "x"])),
        _ => format!("show {} {} {}", word(dice, 2), word(dice, 1), word(dice, 1)),
    }
}

/// What may stand behind an assignment's sign.
fn assigned(dice: &mut Dice) -> String {
    loop {
        let word = word(dice, 2);
        // Elements in one value are joined otherwise than is said anywhere.
        if !word.contains("[@]") && !word.contains('~') && !word.contains("$@") {
            return word;
        }
    }
}

fn script(seed: u64) -> String {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut lines = vec!["A=x; B='two words'; C=1; N=3; K=2; REF=B; L=(one 'two 2' three); M=(); declare -A MAP; x=0; f() { :; }".to_owned()];
    lines.push("unset LONG_NAME; set -- first 'second one'".to_owned());
    for _ in 0..4 + dice.roll(6) {
        lines.push(statement(&mut dice, 2));
    }
    lines.push("show end \"$A\" \"$B\" \"$C\" \"$N\" \"${L[@]}\" \"${M[@]}\"".to_owned());
    lines.join("\n")
}

/// The words of each `show`, as a script comes to them here; none where it is refused.
fn here(script: &str) -> Option<Vec<Vec<String>>> {
    let outcome = run(script, &Surroundings::NONE).ok()?;
    let shows = outcome
        .commands
        .iter()
        .filter(|command| command.fields.first().and_then(super::Field::known).as_deref() == Some("show"));
    let words = |command: &std::rc::Rc<super::state::Recorded>| {
        command.fields[1..]
            .iter()
            .map(|field| field.known().unwrap_or_else(|| "(not known)".to_owned()))
            .collect()
    };
    Some(shows.map(words).collect())
}

#[test]
fn scripts_come_to_the_words_of_bash() {
    let scripts: Vec<String> = (11000..11600).map(script).collect();
    let folder = tempfile::tempdir().unwrap();
    let beside = tempfile::tempdir().unwrap();
    for (number, script) in scripts.iter().enumerate() {
        std::fs::write(beside.path().join(format!("{number:05}")), script).unwrap();
    }
    let driver = "show() { printf '\\2'; printf '%s\\3' \"$@\"; }\n\
                  for file in \"$1\"/*; do\n\
                  if bash -n \"$file\"; then ( ulimit -t 1; . \"$file\" ); else printf bad; fi\n\
                  printf '\\1'\ndone\n";
    let output = Command::new("bash")
        .args(["--norc", "-c", driver, "bash"])
        .arg(beside.path())
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .output();
    let Ok(output) = output else {
        let _ = writeln!(
            std::io::stderr(),
            "there is no bash here: scripts were not compared with what it makes of them"
        );
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found: Vec<&str> = text.split('\u{1}').collect();
    assert_eq!(found.len(), scripts.len() + 1, "{}", String::from_utf8_lossy(&output.stderr));
    let mut refused = 0;
    let mut wrong = Vec::new();
    for (script, found) in scripts.iter().zip(found) {
        if found == "bad" {
            continue;
        }
        let Some(ours) = here(script) else {
            refused += 1;
            continue;
        };
        let words = |show: &str| -> Vec<String> {
            let mut words: Vec<String> = show.split('\u{3}').map(str::to_owned).collect();
            words.pop();
            words
        };
        let theirs: Vec<Vec<String>> = found.split('\u{2}').skip(1).map(words).collect();
        // Printing without words prints one that is empty.
        let ours: Vec<Vec<String>> = ours
            .into_iter()
            .map(|words| if words.is_empty() { vec![String::new()] } else { words })
            .collect();
        if ours != theirs {
            wrong.push(format!("{script}\n  here {ours:?}\n  bash {theirs:?}\n"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        scripts.len(),
        wrong[..wrong.len().min(6)].join("\n")
    );
    assert!(refused * 20 < scripts.len(), "{refused} of {} are refused here", scripts.len());
}
