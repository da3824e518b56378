//! The command as a person uses it, one file per story.

mod a_file_becomes_a_release;
mod a_price_is_asked;
mod an_interrupted_training_releases_nothing;
mod help_is_there;
mod labels_are_private;
mod means_are_released;
mod nobody_need_be_trusted;
mod noise_is_calibrated;
mod nothing_is_overwritten;
mod private_cells_stay_private;
mod some_rows_are_public;
mod the_demo_tells_its_story;
mod wrong_input_is_refused;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder with a small table and its declaration.
struct Desk(tempfile::TempDir);

const DECLARATION: &str = r#"[budget]
epsilon = 2.0
delta = 1e-6

[protect]
unit = "row"

[task]
label = "ill"
loss = "logistic"

[columns.age]
bounds = [0, 100]
visibility = "public"

[columns.ward]
values = ["north", "south"]

[columns.ill]
values = ["no", "yes"]
"#;

impl Desk {
    /// `rows` patients, older ones and those of the south ward more often ill.
    fn new(rows: usize) -> Self {
        let desk = Desk(tempfile::tempdir().unwrap());
        let mut csv = String::from("age,ward,ill\n");
        for row in 0..rows {
            let age = (row * 37) % 101;
            let south = (row * 7) % 3 == 0;
            let ill = age + usize::from(south) * 20 + (row * 13) % 40 > 70;
            csv.push_str(&format!(
                "{age},{},{}\n",
                if south { "south" } else { "north" },
                if ill { "yes" } else { "no" }
            ));
        }
        desk.write("patients.csv", &csv);
        desk.write("privacy.toml", DECLARATION);
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// `halflit` with these words, in this folder.
    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_halflit"));
        command.args(words.split_whitespace()).current_dir(self.0.path());
        command
    }

    fn run(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    /// Runs a command that must succeed, and gives its standard output.
    fn ok(&self, words: &str) -> String {
        let output = self.run(words);
        assert_eq!(output.status.code(), Some(0), "halflit {words}\n{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The same with --json.
    fn json(&self, words: &str) -> Value {
        serde_json::from_str(&self.ok(&format!("{words} --json"))).unwrap()
    }

    /// Runs a command that must be refused with exit code 2, and gives its message.
    fn refused(&self, words: &str) -> String {
        let output = self.run(words);
        assert_eq!(output.status.code(), Some(2), "halflit {words}\n{}", stderr(&output));
        stderr(&output)
    }

    fn files(&self) -> Vec<String> {
        files_of(self.0.path())
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn files_of(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
