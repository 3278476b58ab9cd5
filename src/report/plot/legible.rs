//! For tests: whether every label of every picture of a page stands inside it and on no other.

use super::LETTER;

/// A label: its text, and the pixels left, top, right and bottom of it.
struct Label {
    text: String,
    area: [f64; 4],
}

/// What is wrong with the labels of the pictures of `page`.
pub fn faults(page: &str) -> Vec<String> {
    let pictures = page.split("<svg ").skip(1).filter_map(|rest| rest.split("</svg>").next());
    pictures.flat_map(faults_of).collect()
}

fn faults_of(picture: &str) -> Vec<String> {
    let size = between(picture, "viewBox=\"0 0 ", "\"").unwrap_or_default();
    let (width, height) = size.split_once(' ').unwrap_or_default();
    let (width, height): (f64, f64) = (width.parse().unwrap(), height.parse().unwrap());
    let labels: Vec<Label> = picture.split("<text ").skip(1).map(label).collect();
    let mut faults = Vec::new();
    for (place, one) in labels.iter().enumerate() {
        let [left, top, right, bottom] = one.area;
        if left < 0.0 || top < 0.0 || right > width || bottom > height {
            faults.push(format!("`{}` is clipped at {:?} of {size}", one.text, one.area));
        }
        let touches = |other: &&Label| {
            let [other_left, other_top, other_right, other_bottom] = other.area;
            left < other_right && other_left < right && top < other_bottom && other_top < bottom
        };
        let touched = labels[..place].iter().filter(touches);
        faults.extend(
            touched.map(|other| format!("`{}` lies on `{}` at {:?}", one.text, other.text, one.area)),
        );
    }
    faults
}

fn label(element: &str) -> Label {
    let (open, rest) = element.split_once('>').unwrap();
    let mut text = rest.split('<').next().unwrap().trim().to_owned();
    for (escaped, plain) in [("&apos;", "'"), ("&quot;", "\""), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")]
    {
        text = text.replace(escaped, plain);
    }
    let number = |name: &str| between(open, &format!("{name}=\""), "\"").unwrap().parse::<f64>().unwrap();
    // The mean letter of a usual font is half as wide as it is high; capitals and digits are 0.7 high.
    let length = 0.5 * LETTER * text.chars().count() as f64;
    let (x, y, high) = (number("x"), number("y"), 0.7 * LETTER);
    let left = match between(open, "text-anchor=\"", "\"") {
        Some("start") => x,
        Some("middle") => x - length / 2.0,
        _ => x - length,
    };
    let top = if open.contains("em\"") { y } else { y - high / 2.0 };
    Label { text, area: [left, top, left + length, top + high] }
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    text.split_once(start)?.1.split(end).next()
}

#[test]
fn faults_are_seen() {
    let text = |x: u32, said: &str| {
        format!("<text x=\"{x}\" y=\"20\" dy=\"0.5ex\" text-anchor=\"start\" fill=\"red\">\n{said}\n</text>")
    };
    let page = |texts: String| format!("<svg viewBox=\"0 0 100 40\" role=\"img\">{texts}</svg>");
    assert_eq!(faults(&page(text(0, "one") + &text(30, "two"))), Vec::<String>::new());
    assert!(faults(&page(text(0, "one") + &text(20, "two")))[0].starts_with("`two` lies on `one`"));
    assert!(faults(&page(text(90, "one")))[0].starts_with("`one` is clipped"));
}
