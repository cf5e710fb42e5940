//! [`NamespaceTable`]: namespaces as small numbers, and for each the slots that belong to it in the order they were made, as a
//! linked list, so that a window is read or dropped without touching the others and a slot joins or leaves in O(1).

use flott_core::{Error, Namespace, Result};
use hashbrown::HashMap;

/// No slot.
const NONE: u32 = u32::MAX;
/// Numbers of namespaces stay below this: the bit above says NULL in a tag.
const LIMIT: u32 = 1 << 30;

struct List {
    namespace: Namespace,
    first: u32,
    last: u32,
}

#[derive(Clone, Copy)]
struct Link {
    previous: u32,
    next: u32,
}

/// The namespaces of a table. In a table without them everything belongs to number 0 and no list is kept.
pub(crate) struct NamespaceTable {
    listed: bool,
    numbers: HashMap<Namespace, u32, foldhash::fast::FixedState>,
    lists: Vec<List>,
    free: Vec<u32>,
    links: Vec<Link>,
}

impl NamespaceTable {
    pub(crate) fn new(listed: bool) -> Self {
        let void = List { namespace: Namespace::VOID, first: NONE, last: NONE };
        Self {
            listed,
            numbers: HashMap::default(),
            lists: if listed { Vec::new() } else { vec![void] },
            free: Vec::new(),
            links: Vec::new(),
        }
    }

    pub(crate) fn is_listed(&self) -> bool {
        self.listed
    }

    pub(crate) fn num_bytes(&self) -> usize {
        self.links.len() * size_of::<Link>() + self.lists.len() * (size_of::<List>() + size_of::<(Namespace, u32)>())
    }

    /// The number of a namespace, new if need be.
    pub(crate) fn number(&mut self, namespace: Namespace) -> Result<u32> {
        if !self.listed {
            return if namespace == Namespace::VOID {
                Ok(0)
            } else {
                Err(Error::internal(format!("namespace {namespace:?} in a table opened without namespaces")))
            };
        }
        if let Some(number) = self.numbers.get(&namespace) {
            return Ok(*number);
        }
        let list = List { namespace, first: NONE, last: NONE };
        let number = match self.free.pop() {
            Some(number) => {
                self.lists[number as usize] = list;
                number
            }
            None => {
                self.lists.push(list);
                self.lists.len() as u32 - 1
            }
        };
        if number >= LIMIT {
            return Err(Error::user("more than 2^30 windows are open at once in one task; raise the parallelism"));
        }
        self.numbers.insert(namespace, number);
        Ok(number)
    }

    /// Sets `tags` to the number of every row's namespace.
    pub(crate) fn numbers(&mut self, namespaces: &[Namespace], tags: &mut Vec<u32>) -> Result<()> {
        let Some(&(mut last)) = namespaces.first() else {
            return Ok(());
        };
        let mut number = self.number(last)?;
        for &namespace in namespaces {
            if namespace != last {
                last = namespace;
                number = self.number(namespace)?;
            }
            tags.push(number);
        }
        Ok(())
    }

    pub(crate) fn namespace(&self, number: u32) -> Namespace {
        self.lists[number as usize].namespace
    }

    /// The namespaces there are, ascending, with their numbers.
    pub(crate) fn sorted(&self) -> Vec<(Namespace, u32)> {
        let mut all: Vec<_> = self.numbers.iter().map(|(namespace, number)| (*namespace, *number)).collect();
        all.sort_unstable();
        all
    }

    /// The slots of a namespace, in the order in which they were made.
    pub(crate) fn slots(&self, namespace: Namespace) -> impl Iterator<Item = u32> {
        let first = self.numbers.get(&namespace).map_or(NONE, |number| self.lists[*number as usize].first);
        let linked = |slot: u32| (slot != NONE).then_some(slot);
        std::iter::successors(linked(first), move |slot| linked(self.links[*slot as usize].next))
    }

    /// A new slot joins its namespace at the end.
    pub(crate) fn link(&mut self, slot: u32, number: u32) {
        if !self.listed {
            return;
        }
        if self.links.len() <= slot as usize {
            self.links.resize(slot as usize + 1, Link { previous: NONE, next: NONE });
        }
        let list = &mut self.lists[number as usize];
        self.links[slot as usize] = Link { previous: list.last, next: NONE };
        match list.last {
            NONE => list.first = slot,
            last => self.links[last as usize].next = slot,
        }
        list.last = slot;
    }

    /// A slot leaves its namespace; a namespace left by all is forgotten.
    pub(crate) fn unlink(&mut self, slot: u32, number: u32) {
        if !self.listed {
            return;
        }
        let Link { previous, next } = self.links[slot as usize];
        let list = &mut self.lists[number as usize];
        match previous {
            NONE => list.first = next,
            previous => self.links[previous as usize].next = next,
        }
        match next {
            NONE => list.last = previous,
            next => self.links[next as usize].previous = previous,
        }
        if list.first == NONE {
            self.numbers.remove(&list.namespace);
            self.free.push(number);
        }
    }
}
