use burn::backend::Flex;
use zoo::{Entry, Net, Size, Visitor, ZOO, ZooModel, parameters, visit};

struct Count;

impl Visitor for Count {
    type Output = usize;

    fn visit<M: ZooModel>(self, _: &Entry, model: M) -> usize {
        parameters::<Flex, _>(&M::Net::init(&model, &Default::default()))
    }
}

#[test]
fn the_full_models_have_the_parameters_of_the_table() {
    for entry in ZOO {
        let counted = visit(entry.name, Size::Full, Count).unwrap();
        assert_eq!(counted, entry.parameters, "{}", entry.name);
    }
}

/// As `examples/lab/pytorch` has them.
#[test]
fn the_tiny_models_have_the_parameters_of_their_twins() {
    let counted = ZOO
        .iter()
        .map(|entry| (entry.name, visit(entry.name, Size::Tiny, Count).unwrap()));
    let twins = [
        ("mlp", 26_162),
        ("mlp-medium", 57_410),
        ("mlp-large", 39_520),
        ("tabular", 1_881),
        ("resnet18", 177_362),
        ("resnet50", 376_722),
        ("unet", 122_093),
        ("bert", 30_720),
        ("gpt", 30_592),
        ("lstm", 1_834),
        ("bilstm", 3_658),
        ("gru", 1_418),
        ("rnn", 586),
        ("wgan", 9_292),
        ("mobilenet", 81_554),
        ("convnext", 72_690),
        ("yolox", 226_728),
        ("diffusion", 28_099),
    ];
    assert_eq!(counted.collect::<Vec<_>>(), twins);
}

#[test]
fn a_number_of_the_configuration_can_be_changed_by_its_name() {
    struct Widen;

    impl Visitor for Widen {
        type Output = Vec<usize>;

        fn visit<M: ZooModel>(self, _: &Entry, mut model: M) -> Vec<usize> {
            *model.number("seq_len").unwrap() = 24;
            assert!(model.number("sequence").is_none());
            model.item_shape()
        }
    }

    assert_eq!(visit("gpt", Size::Tiny, Widen), Ok(vec![24]));
}

#[test]
fn an_unknown_model_is_told_with_those_that_are_known() {
    let error = visit("resnet", Size::Tiny, Count).unwrap_err().to_string();
    assert!(error.starts_with("model: unknown `resnet`; allowed: mlp, mlp-medium"));
}
