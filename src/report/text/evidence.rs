//! What measured runs a plan rests on, the faster plan that it stands in for, and the best plan of each engine.

use super::super::words;
use super::listing::{
    Column::{Name, Number, Text},
    Listing,
};
use super::sheet::{Hue, Sheet};
use crate::plan::Plan;

/// The evidence for `plan`, and the fastest on paper.
pub fn evidence(sheet: &mut Sheet, plan: &Plan) {
    if plan.evidence.runs > 0 || !plan.evidence.unvalidated.is_empty() {
        sheet.gap();
        sheet.paragraph("evidence", &words::measured(&plan.evidence));
    }
    for feature in &plan.evidence.unvalidated {
        sheet.marked("", Hue::Caution, &format!("not validated: {feature}"));
    }
    if let Some(fastest) = &plan.fastest {
        sheet.paragraph("fastest", &format!("{} ({})", fastest.strategy.text, fastest.buys));
    }
    if !plan.engines.is_empty() {
        let mut table = Listing::new(&[
            ("engine", Name),
            ("step", Number),
            ("MFU", Number),
            ("runs", Number),
            ("plan", Text),
        ]);
        for record in &plan.engines {
            let shown = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
            let prediction = record.prediction.as_ref();
            let text = record.strategy.as_ref().map(|one| one.text.clone());
            table.row([
                record.engine.clone(),
                shown(prediction.map(|one| one.step_time_s.to_string())),
                shown(prediction.map(|one| words::percent(one.mfu))),
                shown(record.evidence.as_ref().map(|one| one.runs.to_string())),
                text.or_else(|| record.failure.clone()).unwrap_or_default(),
            ]);
        }
        sheet.listing("engines", &table);
    }
}
