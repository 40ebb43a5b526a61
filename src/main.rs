//! The `worldlog` program: everything is in the library.

fn main() -> std::process::ExitCode {
    worldlog::cli::main()
}
