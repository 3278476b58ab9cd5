//! What every entry point does around its own work: it counts, locks the driver, and turns failures into codes.

use crate::counts::{self, Planted};
use crate::driver::Driver;
use crate::failure::{Answer, Error, Failure, is_sticky, log};
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

static DRIVER: LazyLock<Mutex<Driver>> = LazyLock::new(|| Mutex::new(Driver::new()));
static CHANGED: Condvar = Condvar::new();

/// What must hold for a call to be allowed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Need {
    Nothing,
    /// `cuInit` has been called.
    Initialised,
    /// The thread has a context, and nothing has broken it.
    Context,
}

/// The driver, locked for one call.
pub struct Session(Option<MutexGuard<'static, Driver>>);

impl Session {
    pub fn lock() -> Session {
        Session(Some(DRIVER.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Lets other threads go on meanwhile.
    pub fn unlocked(&mut self, work: impl FnOnce()) {
        self.0 = None;
        work();
        *self = Session::lock();
        CHANGED.notify_all();
    }

    /// Sleeps a little while other threads go on.
    pub fn pause(&mut self, pause: &mut Pause) {
        self.0 = None;
        std::thread::sleep(pause.0);
        pause.0 = (pause.0 * 2).min(pause.1);
        *self = Session::lock();
    }

    /// Waits until another thread has come back from such work, or has queued something.
    pub fn wait(&mut self) {
        if let Some(guard) = self.0.take() {
            self.0 = Some(CHANGED.wait(guard).unwrap_or_else(PoisonError::into_inner));
        }
    }
}

/// How long the next wait is for what isn't told, and the longest.
pub struct Pause(Duration, Duration);

impl Pause {
    pub fn new() -> Pause {
        Pause(Duration::from_micros(20), Duration::from_millis(1))
    }

    pub fn always(this: Duration) -> Pause {
        Pause(this, this)
    }
}

/// Wakes those who wait.
pub fn notify() {
    CHANGED.notify_all();
}

impl Deref for Session {
    type Target = Driver;
    fn deref(&self) -> &Driver {
        self.0.as_ref().expect("a session holds the lock but inside `unlocked`")
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut Driver {
        self.0.as_mut().expect("a session holds the lock but inside `unlocked`")
    }
}

pub fn call(entry: &'static str, need: Need, work: impl FnOnce(&mut Session) -> Answer) -> u32 {
    let planted = counts::count(entry);
    let checked = || {
        let mut session = Session::lock();
        let result = match planted {
            Some(Planted::Answer(code)) => Err(Failure { code, text: None }),
            Some(Planted::Spoil(spoil)) => {
                session.spoil = Some(spoil);
                allow(&session, need).and_then(|()| work(&mut session))
            }
            None => allow(&session, need).and_then(|()| work(&mut session)),
        };
        if let (Ok(()), Some(spoil)) = (&result, session.spoil.take()) {
            eprintln!("fake CUDA driver: {entry} cannot do so wrong: {spoil:?}");
            std::process::exit(70);
        }
        if let Err(failure) = &result
            && is_sticky(failure.code)
        {
            session.broken.get_or_insert(failure.code);
            CHANGED.notify_all();
        }
        result
    };
    match catch_unwind(AssertUnwindSafe(checked)) {
        Ok(Ok(())) => 0,
        Ok(Err(failure)) => {
            if let Some(text) = &failure.text {
                log(entry, text);
            }
            failure.code
        }
        Err(_) => {
            log(entry, "the fake driver has panicked");
            Error::CUDA_ERROR_UNKNOWN as u32
        }
    }
}

fn allow(driver: &Driver, need: Need) -> Answer {
    if need != Need::Nothing && !driver.initialised {
        return Err(Error::CUDA_ERROR_NOT_INITIALIZED.into());
    }
    if need == Need::Context {
        if let Some(code) = driver.broken {
            return Err(Failure { code, text: None });
        }
        driver.current()?;
    }
    Ok(())
}

/// Defines entry points: what each needs, its C signature, and its work on the locked driver.
macro_rules! entries {
    ($($need:ident fn $name:ident($($argument:ident: $kind:ty),* $(,)?) |$session:ident| $body:block)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> u32 {
            crate::call::call(stringify!($name), crate::call::Need::$need, |$session| unsafe { $body })
        }
    )*};
}
pub(crate) use entries;
